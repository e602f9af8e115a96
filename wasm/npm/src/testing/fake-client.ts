import type { ClientEvents, ClientState } from '../client/client-events.js';
import type { RequestOutcome, TypedEventTarget } from '../client/client-events.js';
import type { ReadyClient } from '../client/search-client.js';
import { DisposedError } from '../errors/disposed-error.js';
import type { DprWebError } from '../errors/dpr-web-error.js';
import type { SearchClientLike } from '../types/client-like.js';
import type { Device, Dtype } from '../types/device.js';
import { asyncDispose, dispose } from '../types/disposable.js';
import type { ModelManifest } from '../types/manifest.js';
import type { Answer, AnswerResult } from '../types/answer.js';
import type { AnswerOptions, EncodeOptions, SearchOptions } from '../types/options.js';
import { modeOf } from '../privacy/mode-of.js';
import type { PrivacyMode } from '../types/privacy.js';
import type { Hit, SearchResult } from '../types/search-result.js';
import { buildSearchRequest } from '../wire/search-request.js';
import { pause, within } from '../wire/within.js';
import { FAKE_MODEL, fakeTokens, fakeVector } from './fake-encoder.js';

/** Nobody is there. */
const ADDRESS = 'https://dpr.test/v1/search';

/** Timings with the same duration for each step. */
const times = (ms: number) => ({ encodeMs: ms, searchMs: ms, tookMs: ms });
const hitOf = (hit: FakeHit, position: number): Hit => ({
  id: `passage-${position + 1}`,
  score: 1 / (position + 1),
  title: '',
  text: '',
  ...(typeof hit === 'string' ? { text: hit } : hit),
});

/** A passage that a fake finds; a string is its text. Id, score and title are made where none are given. */
export type FakeHit = string | Partial<Hit>;

/** A value, or what makes it for a question. */
export type ForQuestion<T> = T | ((question: string, options: SearchOptions) => T);

/** What a {@link FakeClient} does. */
export interface FakeScript {
  /**
   * What is found, best first; the first `k` of it. Filters are recorded in `searches`, not applied. Default nothing.
   * @example { hits: ['Denver won.', { title: 'Super Bowl 50', text: 'Carolina lost.' }] }
   * @example { hits: (question) => [`about ${question}`] }
   */
  hits?: ForQuestion<readonly FakeHit[]> | undefined;
  /**
   * Milliseconds before an answer or an error. Default 0.
   * @example { delay: (question) => (question === 'slow' ? 100 : 0) }
   */
  delay?: ForQuestion<number> | undefined;
  /**
   * What searches reject with; `undefined` for none.
   * @example { error: new ServerError('unreachable', 0, 'no answer', 'Search again.') }
   */
  error?: ForQuestion<unknown> | undefined;
  /**
   * What {@link FakeClient.answer} answers, best first: spans of the passages that are found, the first of each text.
   * One that stands in none of them is left out. Default the first passage's whole text.
   * @example { hits: ['Denver won.'], answers: ['Denver'] }
   */
  answers?: ForQuestion<readonly string[]> | undefined;
  /**
   * Why there is nothing to read with: `answer` rejects with it, and a search with `rerank` is not re-ranked. Without
   * it, such a search is, in the order of `hits`.
   * @example { readerError: new DownloadError('https://server.test/reader', 404, 'Not Found') }
   */
  readerError?: ForQuestion<DprWebError | undefined>;
  /** What loading the encoder rejects with; `undefined` for none. */
  loadError?: unknown;
}

/**
 * A `SearchClient` for tests: it finds what it is told, with no worker and no network. The script can be changed
 * between searches.
 *
 * @example
 * const client = new FakeClient({ hits: ['Denver won.'] });
 * render(<SearchProvider client={client}><Page /></SearchProvider>);
 * assert.equal(client.searches[0].question, 'who won super bowl 50');
 */
export class FakeClient extends (EventTarget as new () => TypedEventTarget<ClientEvents>) implements SearchClientLike {
  script: FakeScript;
  /** The searches so far, in the order of the calls: those that failed or were aborted as well. */
  readonly searches: { question: string; options: SearchOptions }[] = [];
  readonly #lifetime = new AbortController();
  #state: ClientState = 'idle';
  #lastId = 0;

  constructor(script: FakeScript = {}) {
    super();
    this.script = script;
  }

  get ready(): Promise<ReadyClient> {
    return this.#load().then(() => this as unknown as ReadyClient);
  }

  get state(): ClientState {
    return this.#state;
  }

  get device(): Device | undefined {
    return this.#state === 'ready' ? 'cpu' : undefined;
  }

  get dtype(): Dtype | undefined {
    return this.#state === 'ready' ? 'q8' : undefined;
  }

  get model(): ModelManifest | undefined {
    return this.#state === 'ready' ? FAKE_MODEL : undefined;
  }

  preload(): Promise<void> {
    return this.#load().catch(() => undefined);
  }

  async search(question: string, options: SearchOptions = {}): Promise<SearchResult> {
    return (await this.#search([question], options))[0]!;
  }

  async answer(question: string, options: AnswerOptions = {}): Promise<AnswerResult> {
    const { count = 1, signal, timeout, filter, privacy, onAnswer, depth: k = modeOf(privacy) === 'encrypted' ? 10 : 20 } = options;
    // Without a reader nothing is sent.
    const error = await this.#loaded(options, () => this.#given(this.script.readerError, question, options));
    if (error) throw error;
    const found = options.hits ? { hits: options.hits, timings: times(0) } : await this.search(question, { k, signal, timeout, filter, privacy });
    const { hits, timings } = found;
    const texts = this.#given(this.script.answers, question, options) ?? hits.slice(0, 1).map(({ text }) => text);
    const all = texts.flatMap((text): Answer[] => {
      const passage = hits.findIndex((hit) => hit.text.includes(text));
      const hit = hits[passage];
      if (!hit) return [];
      const start = hit.text.indexOf(text);
      return [{ text, hit, passage, start, end: start + text.length, confidence: 1, selection: 1, score: 1 }];
    });
    const answers = all.slice(0, count);
    onAnswer?.({ answers, read: hits.length, total: hits.length });
    return { ...found, answers, timings: { ...timings, readMs: 1 } };
  }

  async searchMany(questions: readonly string[], options: SearchOptions = {}): Promise<SearchResult[]> {
    return questions.length ? this.#search(questions, options, true) : [];
  }

  encodeMany(texts: readonly string[], options?: EncodeOptions): Promise<Float32Array[]> {
    return this.#loaded(options, () => texts.map(fakeVector));
  }

  /** A token for each word, and two around them. */
  countTokens(text: string, options?: EncodeOptions): Promise<number> {
    return this.#loaded(options, () => fakeTokens(text));
  }

  /** None. */
  get privacyModes(): Promise<PrivacyMode[]> {
    return Promise.resolve([]);
  }

  async prepare(_options?: SearchOptions): Promise<void> {}

  dispose(): void {
    this.#lifetime.abort(new DisposedError('SearchClient'));
    this.#become('disposed');
  }

  [dispose](): void {
    this.dispose();
  }

  async [asyncDispose](): Promise<void> {
    this.dispose();
  }

  #loaded<T>({ signal }: EncodeOptions = {}, make: (signal: AbortSignal) => T | Promise<T>): Promise<T> {
    return within([signal, this.#lifetime.signal], async ({ signal }) => {
      await this.#load();
      signal.throwIfAborted();
      return make(signal);
    });
  }

  #search(questions: readonly string[], options: SearchOptions, isBatch?: boolean): Promise<SearchResult[]> {
    this.searches.push(...questions.map((question) => ({ question, options })));
    return this.#loaded(options, async (signal) => {
      const { k = 10, filter, rerank } = options;
      const mode = modeOf(options.privacy);
      const vectors = questions.map(fakeVector);
      const request = /local|bucket/.test(mode)
        ? undefined
        : buildSearchRequest(ADDRESS, isBatch ? vectors : vectors[0]!, k, FAKE_MODEL.fingerprint, filter);
      const sent = { timings: times(1), request, requests: request ? [request] : [], privacy: { mode, sees: 'a stand-in' } };
      const results = Promise.all(
        questions.map(async (question): Promise<SearchResult> => {
          const { hits = [], delay = 0, error, readerError } = this.script;
          const value = <T>(given: ForQuestion<T>): T => this.#given(given, question, options);
          await pause(value(delay), signal);
          const failure = value(error);
          if (failure !== undefined) throw failure;
          const result = { ...sent, hits: value(hits).map(hitOf).slice(0, k) };
          if (!rerank) return result;
          const rerankError = value(readerError);
          return { ...result, timings: { ...times(1), rerankMs: 1 }, reranked: !rerankError, ...(rerankError && { rerankError }) };
        }),
      );
      const outcome = results.then(
        (): RequestOutcome => 'answered',
        (): RequestOutcome => (signal.aborted ? 'aborted' : 'failed'),
      );
      if (request) this.dispatchEvent(new CustomEvent('request', { detail: { id: ++this.#lastId, request, outcome } }));
      return results;
    });
  }

  async #load(): Promise<void> {
    this.#lifetime.signal.throwIfAborted();
    if (this.#state === 'ready') return;
    this.#become('loading');
    await Promise.resolve();
    this.#lifetime.signal.throwIfAborted();
    const error = this.script.loadError;
    this.#become(error === undefined ? 'ready' : 'failed');
    if (error !== undefined) throw error;
  }

  #become(state: ClientState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.dispatchEvent(new Event('statechange'));
  }

  #given<T>(given: ForQuestion<T>, question: string, options: SearchOptions): T {
    type Make = (question: string, options: SearchOptions) => T;
    return typeof given === 'function' ? (given as Make)(question, options) : given;
  }
}
