import { QuestionEncoder } from '../encoder/question-encoder.js';
import { untilAborted } from '../encoder/until-aborted.js';
import { DisposedError } from '../errors/disposed-error.js';
import { ServerError } from '../errors/server-error.js';
import type { Device, Dtype } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import type { ConnectOptions, SearchOptions } from '../types/options.js';
import type { Hit, SearchResult, SentRequest } from '../types/search-result.js';
import { fetchManifest } from '../weights/model-files.js';
import { pageAddress } from '../wire/page-address.js';
import { buildSearchRequest } from '../wire/search-request.js';
import { readServerError } from '../wire/server-error.js';

const DEFAULT_K = 10;

/**
 * Searches a `dpr serve`: the question is encoded here, its vector is sent.
 *
 * @example
 * const client = await SearchClient.connect('https://search.example.org/');
 * const { hits } = await client.search('who won super bowl 50', { k: 5 });
 * for (const { title, text, score } of hits) console.log(score, title, text);
 * client.dispose();
 */
export class SearchClient {
  readonly #encoder: QuestionEncoder;
  readonly #searchUrl: string;
  readonly #headers: Record<string, string>;
  readonly #credentials: RequestCredentials;
  readonly #lifetime = new AbortController();

  private constructor(encoder: QuestionEncoder, searchUrl: string, options: ConnectOptions) {
    this.#encoder = encoder;
    this.#searchUrl = searchUrl;
    this.#headers = { ...options.headers };
    this.#credentials = options.credentials ?? 'omit';
  }

  /**
   * Asks the server for its model, loads the question encoder and warms it up.
   *
   * @param url - the server's address, absolute or relative to the document, e.g. `/`
   * @throws what {@link QuestionEncoder.load} throws
   */
  static async connect(url: string | URL, options: ConnectOptions = {}): Promise<SearchClient> {
    const server = new URL(url, pageAddress());
    // So that `https://host/dpr` and `https://host/dpr/` mean the same.
    if (!server.pathname.endsWith('/')) server.pathname += '/';
    const manifest = await fetchManifest(new URL('v1/model', server).href, {
      headers: options.headers ?? {},
      credentials: options.credentials ?? 'omit',
      signal: options.signal ?? null,
    });
    const encoder = await QuestionEncoder.load(manifest, options);
    return new SearchClient(encoder, new URL('v1/search', server).href, options);
  }

  /** Where questions are encoded now. Changes from `webgpu` to `cpu` if the GPU is lost. */
  get device(): Device {
    return this.#encoder.device;
  }

  /** The weights format in use. */
  get dtype(): Dtype {
    return this.#encoder.dtype;
  }

  /** The server's model. */
  get model(): ModelManifest {
    return this.#encoder.model;
  }

  /**
   * Finds the passages nearest to a question. Several searches at once are encoded in the order of
   * the calls and each gets its own answer.
   *
   * @throws {@link ServerError}, {@link DisposedError}, {@link EncoderError}, or the signal's reason
   */
  async search(text: string, options: SearchOptions = {}): Promise<SearchResult> {
    const life = this.#lifetime.signal;
    life.throwIfAborted();
    const signal = options.signal ? AbortSignal.any([options.signal, life]) : life;
    const start = performance.now();
    const vector = await untilAborted(this.#encoder.encode(text), signal);
    const encoded = performance.now();
    const request = buildSearchRequest(
      this.#searchUrl,
      vector,
      options.k ?? DEFAULT_K,
      this.model.fingerprint,
      this.#headers,
      options.filter,
    );
    const { hits, tookMs } = await this.#send(request, signal);
    return {
      hits,
      timings: { encodeMs: encoded - start, searchMs: performance.now() - encoded, tookMs },
      request,
    };
  }

  /**
   * Frees the encoder and ends running searches, which reject with {@link DisposedError}. Calling it
   * again does nothing.
   */
  dispose(): void {
    if (this.#lifetime.signal.aborted) return;
    this.#lifetime.abort(new DisposedError('SearchClient'));
    this.#encoder.dispose();
  }

  async #send(request: SentRequest, signal: AbortSignal): Promise<{ hits: Hit[]; tookMs: number }> {
    let response: Response;
    try {
      response = await fetch(request.url, {
        method: request.method,
        headers: request.headers,
        body: request.body,
        credentials: this.#credentials,
        // A page may keep the question in its own address; it must not travel as the referrer.
        referrerPolicy: 'no-referrer',
        cache: 'no-store',
        signal,
      });
    } catch (error) {
      signal.throwIfAborted();
      throw new ServerError(
        'unreachable',
        0,
        'the search server does not answer',
        'Check the connection and that the server is running, then search again.',
        { cause: error },
      );
    }
    if (!response.ok) throw await readServerError(response);
    try {
      const answer = (await response.json()) as { hits: Hit[]; took_ms: number };
      return { hits: answer.hits, tookMs: answer.took_ms };
    } catch (error) {
      signal.throwIfAborted();
      throw new ServerError(
        'unexpected_answer',
        response.status,
        'the answer of the search server is not JSON',
        'Check that the address is that of a `dpr serve`.',
        { cause: error },
      );
    }
  }
}
