import { QuestionEncoder } from '../encoder/question-encoder.js';
import { untilAborted } from '../encoder/until-aborted.js';
import { DisposedError } from '../errors/disposed-error.js';
import { ServerError } from '../errors/server-error.js';
import type { Device, Dtype } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import type { ConnectOptions, SearchOptions } from '../types/options.js';
import type { SearchResult, SentRequest } from '../types/search-result.js';
import { fetchManifest } from '../weights/model-files.js';
import { pageAddress } from '../wire/page-address.js';
import { parseAnswer, type Answer } from '../wire/parse-answer.js';
import { buildSearchRequest } from '../wire/search-request.js';
import { readServerError } from '../wire/server-error.js';
import { Silence } from '../wire/silence.js';
import { transport, type Transport } from '../wire/transport.js';

const DEFAULT_K = 10;
/** Milliseconds; a server gives a search up earlier. */
const DEFAULT_TIMEOUT = 30_000;

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
  readonly #transport: Transport;
  readonly #lifetime = new AbortController();

  private constructor(encoder: QuestionEncoder, searchUrl: string, options: ConnectOptions, requests: Transport) {
    this.#encoder = encoder;
    this.#searchUrl = searchUrl;
    this.#headers = { ...options.headers };
    this.#transport = requests;
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
    const requests = transport(options, server, 'omit');
    const address = new URL('v1/model', server).href;
    const manifest = await fetchManifest(address, requests, options.signal);
    const encoder = await QuestionEncoder.load(manifest, {
      ...options,
      credentials: options.credentials ?? 'omit',
      baseUrl: address,
    });
    return new SearchClient(encoder, new URL('v1/search', server).href, options, requests);
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
    const { hits, tookMs } = await this.#send(request, options.timeout ?? DEFAULT_TIMEOUT, signal);
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

  async #send(request: SentRequest, timeout: number, signal: AbortSignal): Promise<Answer> {
    const tooLate = new AbortController();
    const silence = new Silence();
    silence.wait(timeout, () => tooLate.abort());
    let response: Response;
    let answer: unknown;
    try {
      response = await this.#transport.send(request.url, {
        method: request.method,
        headers: request.headers,
        body: request.body,
        cache: 'no-store',
        signal: AbortSignal.any([signal, tooLate.signal]),
      });
      if (!response.ok) throw await readServerError(response);
      answer = await response.json();
    } catch (error) {
      signal.throwIfAborted();
      throw tooLate.signal.aborted ? silent(timeout, error) : failed(error);
    } finally {
      silence.stop();
    }
    return parseAnswer(answer, response.status);
  }
}

function failed(error: unknown): ServerError {
  if (error instanceof ServerError) return error;
  if (error instanceof SyntaxError) {
    return new ServerError(
      'unexpected_answer',
      200,
      'the answer of the search server is not JSON',
      'Check that the address is that of a `dpr serve`.',
      { cause: error },
    );
  }
  return new ServerError(
    'unreachable',
    0,
    'the search server does not answer',
    'Check the connection and that the server is running, then search again.',
    { cause: error },
  );
}

function silent(timeout: number, cause: unknown): ServerError {
  return new ServerError(
    'timeout',
    0,
    `the search server did not answer within ${timeout / 1000} s`,
    'Search again; if it happens again, tell who runs the server.',
    { cause },
  );
}
