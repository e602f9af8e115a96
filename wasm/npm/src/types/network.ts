/** Headers, or what makes them for each request, as for keys that are renewed. */
export type HeadersSource = Record<string, string> | (() => Record<string, string> | Promise<Record<string, string>>);

/** How often a request is made again, and when. */
export interface RetryOptions {
  /**
   * Most further tries. Default 2.
   * @example { retry: { limit: 4 } }
   */
  limit?: number | undefined;
  /**
   * Milliseconds before further try `attempt` (1 for the first), where the server does not say when. Default 0.3 s,
   * then twice as long each time.
   * @example { retry: { delay: (attempt) => 1000 * attempt } }
   */
  delay?: ((attempt: number) => number) | undefined;
}

/** How the manifest, the model files and searches are asked for: all of them alike. */
export interface NetworkOptions {
  /**
   * Extra headers for requests to the server, e.g. an API key, or a function that returns them, which is called for
   * every request. They are set on requests to the manifest's origin alone. A redirect takes them along, to another
   * origin as well, except `authorization`, which `fetch` drops there: do not answer with redirects to origins that
   * must not see a key. Messages of private searches follow none. The package itself sets `content-type` on
   * searches (`application/json`, of encrypted messages `application/octet-stream`), `range` on downloads that broke,
   * and nothing else.
   * @example { headers: { 'x-api-key': key } }
   * @example { headers: async () => ({ authorization: `Bearer ${await freshToken()}` }) }
   */
  headers?: HeadersSource | undefined;
  /**
   * Whether cookies travel with those requests. Default `omit` for {@link SearchClient}, `same-origin` for
   * {@link QuestionEncoder.load}.
   * @example { credentials: 'same-origin' }
   */
  credentials?: RequestCredentials | undefined;
  /**
   * What makes those requests instead of the browser's `fetch`, as for tests. The worker fetches its WebAssembly module
   * itself.
   * @example { fetch: (url, init) => myAuth.fetch(url, init) }
   */
  fetch?: typeof fetch | undefined;
  /**
   * Most further tries of a request that got no answer or one of 408, 429, 502, 503 and 504; `0` for none. The header
   * `retry-after` of the answer is obeyed up to 30 seconds; where it asks for more, the error has it as `retryAfter`. A
   * download goes on where it broke. Default 2.
   * @example { retry: 0 }
   */
  retry?: number | RetryOptions | undefined;
  /**
   * Longest wait, in milliseconds, for the manifest, and for the next byte of a file. Default 30 000.
   * @example { stallTimeout: 10_000 }
   */
  stallTimeout?: number | undefined;
}
