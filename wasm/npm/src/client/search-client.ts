import type { QuestionEncoder } from '../encoder/question-encoder.js';
import { untilAborted } from '../wire/until-aborted.js';
import { DisposedError } from '../errors/disposed-error.js';
import type { DprWebError } from '../errors/dpr-web-error.js';
import type { ServerError } from '../errors/server-error.js';
import type { Device, Dtype } from '../types/device.js';
import { asyncDispose, dispose } from '../types/disposable.js';
import type { ModelManifest } from '../types/manifest.js';
import type { DeviceChange } from '../types/progress.js';
import type { AnswerResult } from '../types/answer.js';
import type { AnswerOptions, ConnectOptions, EncodeOptions, SearchOptions } from '../types/options.js';
import type { SearchResult, SentRequest } from '../types/search-result.js';
import type { PrivateParts } from '../privacy/parts.js';
import { modeOf } from '../privacy/mode-of.js';
import type { PrivacyMode } from '../types/privacy.js';
import { address } from '../wire/address.js';
import type { Answer } from '../wire/parse-answer.js';
import { postSearch, reader, silent } from '../wire/post-search.js';
import { buildSearchRequest } from '../wire/search-request.js';
import { transport, type Transport } from '../wire/transport.js';
import { within } from '../wire/within.js';
import type { ClientEvents, ClientState, RequestOutcome, TypedEventTarget } from './client-events.js';
import { engine, privacy, reading } from './engine.js';

const DEFAULT_K = 10;
/** Milliseconds; a server gives a search up earlier. */
const DEFAULT_TIMEOUT = 30_000;

/**
 * Searches a `dpr serve`: the question is encoded here, its vector is sent. With `privacy: 'local'` it searches a
 * static index in the page, and sends nothing; with `privacy: 'bucket'` it fetches some buckets of one.
 *
 * @example
 * const client = await SearchClient.connect('https://search.example.org/');
 * const { hits } = await client.search('who won super bowl 50', { k: 5 });
 * for (const { title, text, score } of hits) console.log(score, title, text);
 * client.dispose();
 */
export class SearchClient extends (EventTarget as new () => TypedEventTarget<ClientEvents>) {
  /** Address of the model's manifest, or of the static index's. */
  readonly #source: URL;
  readonly #options: ConnectOptions;
  readonly #transport: Transport;
  readonly #lifetime = new AbortController();
  #state: ClientState = 'idle';
  #loading: Promise<QuestionEncoder> | undefined;
  #encoder: QuestionEncoder | undefined;
  #lastId = 0;
  /** Whether it searches a static index, and no server. */
  readonly #isLocal: boolean;

  private constructor(server: URL, options: ConnectOptions) {
    super();
    this.#isLocal = /local|bucket/.test(modeOf(options.privacy));
    if (this.#isLocal) this.#source = server;
    else {
      // So that `https://host/dpr` and `https://host/dpr/` mean the same.
      if (!server.pathname.endsWith('/')) server.pathname += '/';
      this.#source = new URL('v1/model', server);
    }
    this.#options = {
      ...options,
      onProgress: (event) => {
        const { change } = event as { change?: DeviceChange };
        this.#tell('progress', event);
        if (change) this.#tell('devicechange', change);
        options.onProgress?.(event);
      },
    };
    this.#transport = transport(options, server, 'omit');
  }

  /**
   * Makes a client that does nothing yet: `ready`, {@link SearchClient.preload} or the first search load the encoder.
   * Safe where there is no browser, as on a server that renders pages.
   *
   * @example
   * const client = SearchClient.create('https://search.example.org/');
   * input.addEventListener('focus', () => client.preload(), { once: true });
   * form.onsubmit = async () => show((await client.search(input.value)).hits);
   *
   * @param url - the server's address, absolute or relative to the document, e.g. `/`; with `privacy: 'local'` or
   * `'bucket'`, that of a `dpr-static.json`
   * @throws {@link OptionError} when that is not an address
   */
  static create(url: string | URL, options: ConnectOptions = {}): SearchClient {
    return new SearchClient(address(url, "the server's address"), options);
  }

  /**
   * Asks the server for its model, loads the question encoder and warms it up: {@link SearchClient.create} and `ready`
   * in one. With `privacy: 'local'`, downloads the static index and its question encoder.
   *
   * @example const client = await SearchClient.connect('/dpr/dpr-static.json', { privacy: 'local' });
   *
   * @param url - as {@link SearchClient.create} takes it
   * @throws what {@link QuestionEncoder.load} throws; nothing stays behind
   */
  static async connect(url: string | URL, options?: ConnectOptions): Promise<ReadyClient> {
    const client = SearchClient.create(url, options);
    try {
      return await client.ready;
    } catch (error) {
      client.dispose();
      throw error;
    }
  }

  /**
   * This client, once questions can be encoded. Asking for it begins the loading; after a failure, it begins again.
   *
   * @example const { device, model } = await client.ready;
   */
  get ready(): Promise<ReadyClient> {
    return this.#load().then(() => this as unknown as ReadyClient);
  }

  /** How far the client is. The event `statechange` tells of every change. */
  get state(): ClientState {
    return this.#state;
  }

  /**
   * Where questions are encoded now; `undefined` before it is ready. Changes if the GPU is lost, or turns out to be
   * faster.
   */
  get device(): Device | undefined {
    return this.#encoder?.device;
  }

  /** The weights format in use; `undefined` before it is ready. */
  get dtype(): Dtype | undefined {
    return this.#encoder?.dtype;
  }

  /** The server's model; `undefined` before it is ready. The event `modelchange` tells that it is another. */
  get model(): ModelManifest | undefined {
    return this.#encoder?.model;
  }

  /**
   * Loads the encoder if it is not here yet. Never rejects, so that nobody has to wait for it: a failure is the next
   * search's.
   *
   * @example requestIdleCallback(() => client.preload());
   */
  async preload(): Promise<void> {
    await this.#load().catch(() => undefined);
  }

  /**
   * Finds the passages nearest to a question. Several searches at once are encoded in the order of the calls and each
   * gets its own answer. A search whose signal fires before its turn is not encoded. Where the server has another model
   * since, that is loaded and the question is encoded and sent once more.
   *
   * @throws {@link ServerError}, {@link DisposedError}, {@link EncoderError}, or the signal's reason; with `rerank` and in
   * private modes {@link OptionError}, in private modes {@link PrivacyError}, {@link VersionError} and
   * {@link SpoiledAnswerError}; where those download something, or a static index does, {@link ManifestError},
   * {@link ModelMismatchError}, {@link DownloadError} and {@link IntegrityError}; before the client is ready, what
   * {@link QuestionEncoder.load} throws as well
   */
  async search(text: string, options: SearchOptions = {}): Promise<SearchResult> {
    return (await this.#search([text], options, false))[0]!;
  }

  /**
   * Finds the passages nearest to each of several questions, with one request. A server takes 64 at once unless it is
   * told otherwise.
   *
   * @returns one result for each question, in their order; they share `request` and the times
   * @throws what {@link SearchClient.search} throws
   *
   * @example
   * const [first, second] = await client.searchMany(['who won super bowl 50', 'who played in it']);
   */
  async searchMany(texts: readonly string[], options: SearchOptions = {}): Promise<SearchResult[]> {
    return texts.length ? this.#search(texts, options, true) : [];
  }

  /**
   * Answers a question: finds passages as {@link SearchClient.search} does, and marks the answer in them, in the page.
   * The reader is downloaded when it is first used, with the events of {@link Progress}, and runs in as many workers as
   * there are processors, at most 4. Passages are read in the server's order; once the signal fires, none is begun.
   *
   * @throws {@link ManifestError} with the code `no_reader` where the server offers none, {@link DownloadError} and
   * {@link IntegrityError} where it cannot be downloaded, {@link EncoderError} where it cannot read, and what
   * {@link SearchClient.search} throws
   *
   * @example
   * const { answers } = await client.answer('who won super bowl 50', { onAnswer: ({ answers }) => show(answers[0]) });
   * if (answers[0]) console.log(answers[0].text, answers[0].confidence, answers[0].hit.title);
   */
  async answer(text: string, options: AnswerOptions = {}): Promise<AnswerResult> {
    return (await reading()).answer(this.#parts, text, options);
  }

  /**
   * Encodes questions and sends nothing.
   *
   * @returns `[dim]` numbers for each, in their order
   * @throws what {@link QuestionEncoder.load} and {@link QuestionEncoder.encode} throw
   *
   * @example const vectors = await client.encodeMany(['who won super bowl 50', 'who played in it']);
   */
  encodeMany(texts: readonly string[], options: EncodeOptions = {}): Promise<Float32Array[]> {
    return this.#within(options, (encoder, signal) => encoder.encodeMany(texts, { signal }));
  }

  /**
   * Returns the number of tokens of a question, as {@link QuestionEncoder.countTokens} does. Sends nothing.
   *
   * @throws what {@link QuestionEncoder.load} and {@link QuestionEncoder.encode} throw
   *
   * @example const isLong = (await client.countTokens(input.value)) >= client.model.max_question_tokens;
   */
  countTokens(text: string, options: EncodeOptions = {}): Promise<number> {
    return this.#within(options, (encoder, signal) => encoder.countTokens(text, { signal }));
  }

  /**
   * The modes that this client can search in, `plain` where vectors are taken among them, with what they cost and show.
   * Loads the encoder.
   *
   * @example const isEncrypted = (await client.privacyModes).some(({ mode }) => mode === 'encrypted');
   */
  get privacyModes(): Promise<PrivacyMode[]> {
    return privacy().then((part) => part.modes(this.#parts));
  }

  /**
   * Downloads and prepares what a search with these options needs, in a private mode, so that the first search does not
   * wait for it. In `plain`, nothing.
   *
   * @throws what {@link SearchClient.search} throws
   *
   * @example await client.prepare({ privacy: 'encrypted', k: 5 });
   */
  async prepare(options: SearchOptions = {}): Promise<void> {
    return (await privacy()).prepare(this.#parts, options);
  }

  /**
   * Frees the encoder and ends running searches, which reject with {@link DisposedError}. Calling it
   * again does nothing.
   */
  dispose(): void {
    if (this.#lifetime.signal.aborted) return;
    this.#lifetime.abort(new DisposedError('SearchClient'));
    this.#encoder?.dispose();
    this.#become('disposed');
  }

  /** {@link SearchClient.dispose}, for `using client = …`. */
  [dispose](): void {
    this.dispose();
  }

  /** {@link SearchClient.dispose}, for `await using client = …`. */
  async [asyncDispose](): Promise<void> {
    this.dispose();
  }

  #load(): Promise<QuestionEncoder> {
    return (this.#loading ??= this.#open().catch((error: unknown) => {
      this.#loading = undefined;
      this.#become('failed');
      throw error;
    }));
  }

  #open(): Promise<QuestionEncoder> {
    const old = this.#encoder;
    const { signal, encoder: size, credentials = 'omit' } = this.#options;
    // The page's signal is for the first loading; by now it may have fired long ago.
    return within([this.#lifetime.signal, old ? undefined : signal], async (stop) => {
      this.#become('loading');
      const options = { ...this.#options, credentials, baseUrl: undefined, signal: stop.signal };
      const { QuestionEncoder } = await (this.#isLocal ? privacy : engine)();
      stop.signal.throwIfAborted();
      const encoder = await QuestionEncoder.load(size ? new URL('model/small', this.#source) : this.#source, options, old);
      this.#encoder = encoder;
      if (this.#state === 'disposed') encoder.dispose();
      this.#become('ready');
      // So that it is there when an answer comes.
      if (!this.#isLocal) reader().catch(() => undefined);
      if (old && old !== encoder) {
        old.dispose();
        this.#tell('modelchange', { from: old.model, to: encoder.model });
      }
      return encoder;
    });
  }

  #become(state: ClientState): void {
    if (state === this.#state || this.#state === 'disposed') return;
    this.#state = state;
    this.#tell('statechange');
  }

  #tell(type: keyof ClientEvents, detail?: unknown): void {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  get #parts(): PrivateParts {
    return [
      this,
      this.#source,
      this.#options,
      this.#transport,
      this.#lifetime.signal,
      this.#within.bind(this) as PrivateParts[5],
      this.#announced.bind(this) as PrivateParts[6],
    ];
  }

  async #search(texts: readonly string[], options: SearchOptions, isBatch: boolean): Promise<SearchResult[]> {
    const part = options.rerank && (await reading().catch((error: DprWebError) => error));
    if (part && 'rerank' in part) return part.rerank(this.#parts, texts, options, isBatch);
    if (this.#isLocal || modeOf(options.privacy ?? this.#options.privacy) !== 'plain') {
      return (await privacy()).search(this.#parts, texts, options, part);
    }
    const requests: SentRequest[] = [];
    return this.#within(options, async (encoder, signal, start) => {
      const vectors = await encoder.encodeMany(texts, { signal });
      const encoded = performance.now();
      const url = new URL('search', this.#source).href;
      const { k = DEFAULT_K, filter, timeout = this.#options.timeout ?? DEFAULT_TIMEOUT } = options;
      const built = buildSearchRequest(url, isBatch ? vectors : vectors[0]!, k, encoder.model.fingerprint, filter);
      const { lists, tookMs } = await this.#send(built, isBatch ? texts.length : undefined, timeout, signal, requests);
      const timings = { encodeMs: encoded - start, searchMs: performance.now() - encoded, tookMs };
      return lists.map((hits) => ({
        hits,
        timings,
        request: requests.at(-1),
        requests,
        privacy: { mode: 'plain', sees: 'the vector' },
        ...(part && { reranked: false, rerankError: part }),
      }));
    });
  }

  /** Does something with the encoder; once more with that of the server's new model, where the server has another. */
  #within<T>(
    options: EncodeOptions,
    work: (encoder: QuestionEncoder, signal: AbortSignal, start: number) => Promise<T>,
  ): Promise<T> {
    return within([options.signal, this.#lifetime.signal], async ({ signal }) => {
      const start = performance.now();
      const encoder = await untilAborted(this.#load(), signal);
      try {
        return await work(encoder, signal, start);
      } catch (error) {
        const isStale = (error as Partial<ServerError> | undefined)?.code === 'wrong_model';
        // An encoder that was replaced meanwhile is disposed.
        if (signal.aborted || (!isStale && this.#encoder === encoder)) throw error;
        // The server is asked for its model again: once, for however many searches.
        if (this.#encoder === encoder && this.#state === 'ready') this.#loading = undefined;
        const other = await untilAborted(this.#load(), signal);
        if (other === encoder) throw error;
        return work(other, signal, start);
      }
    });
  }

  /** Sends a search, and adds each try to `requests`. */
  #send(
    built: SentRequest,
    vectors: number | undefined,
    milliseconds: number,
    signal: AbortSignal,
    requests: SentRequest[],
  ): Promise<Answer> {
    return within(
      [signal],
      (stop) =>
        this.#transport.retrying(stop.signal, async () => {
          const own = await this.#transport.headers(built.url);
          stop.signal.throwIfAborted();
          // Results and events get logged: the values of the page's own headers, which are keys, stay out of them.
          const hidden = Object.fromEntries(Object.keys(own).map((name) => [name, '(hidden)']));
          const request = { ...built, headers: { ...hidden, ...built.headers } };
          const sent = postSearch(this.#transport, built, own, vectors, stop.signal);
          requests.push(request);
          return this.#announced(request, signal, sent);
        }),
      { milliseconds, error: () => silent(milliseconds) },
    );
  }

  /** Tells of a request that has been handed to `fetch`, and later of its outcome. */
  #announced<T>(request: SentRequest, signal: AbortSignal, sent: Promise<T>): Promise<T> {
    const outcome = sent.then(
      (): RequestOutcome => 'answered',
      (): RequestOutcome => (signal.aborted ? 'aborted' : 'failed'),
    );
    this.#tell('request', { id: ++this.#lastId, request, outcome });
    return sent;
  }
}

/** A {@link SearchClient} whose encoder is here. */
export type ReadyClient = SearchClient & {
  readonly device: Device;
  readonly dtype: Dtype;
  readonly model: ModelManifest;
};
