import { DprWebError, type ModelManifest, type PassageFilter, type ReadyClient, type SearchResult } from 'dpr-web';
import { announce } from './announce.js';
import type { Answers } from './answer.js';
import { possible } from './arrival.js';
import type { Connection } from './connection.js';
import { byId } from './dom.js';
import { count } from './format.js';
import type { ResultList } from './results.js';
import type { Settings } from './settings.js';
import type { StatusLine } from './status.js';

/** Passages that a search asks for. */
export const K = 10;

/** Loads the encoder and searches; says how far it is, and what went wrong. */
export class Searcher {
  readonly #question = byId<HTMLInputElement>('question');
  readonly #connection: Connection;
  readonly #status: StatusLine;
  readonly #results: ResultList;
  readonly #filter: () => PassageFilter | undefined;
  readonly #answers: Answers;
  #client: ReadyClient | undefined;
  /** Called before each search: it ends the search that typing began, whose results would be older. */
  onSearch: (() => void) | undefined;
  /** Called when the server has refused a plain question because it answers private ones alone. */
  onPlainRefused: (() => void) | undefined;
  /** Called with each result that is shown. */
  onResult: ((result: SearchResult) => void) | undefined;
  #state: 'loading' | 'ready' | 'failed' = 'loading';
  #settings: Settings | undefined;
  #running: AbortController | undefined;

  constructor(
    connection: Connection,
    status: StatusLine,
    results: ResultList,
    filter: () => PassageFilter | undefined,
    answers: Answers,
  ) {
    this.#connection = connection;
    this.#status = status;
    this.#results = results;
    this.#filter = filter;
    this.#answers = answers;
    connection.onReady = (client) => {
      // `connect` takes what it has begun itself.
      if (this.#state !== 'failed') return;
      this.#status.clearError();
      this.#take(client);
    };
  }

  /** Loads the encoder with these settings, in the place of an earlier one. */
  async connect(settings: Settings): Promise<void> {
    // A new object: whatever still runs for an older one is ignored.
    const mine = { ...settings };
    this.#settings = mine;
    this.#state = 'loading';
    this.#status.reset();
    try {
      const client = await this.#connection.open(possible(mine));
      if (mine !== this.#settings) return;
      this.#take(client);
    } catch (error) {
      if (mine !== this.#settings) return;
      this.#state = 'failed';
      this.#status.down();
      this.#status.fail(error, 'Load again', () => void this.connect(mine));
    }
  }

  #take(client: ReadyClient): void {
    this.#client = client;
    this.#state = 'ready';
    this.showModel(client.model);
  }

  /** Searches what stands in the field. */
  async search(): Promise<void> {
    this.onSearch?.();
    const text = this.#question.value.trim();
    if (text === '') {
      this.#question.focus();
      return;
    }
    this.stop();
    const mine = (this.#running = new AbortController());
    // Asking again is also a way to say «try again».
    if (this.#state === 'failed' && this.#settings) void this.connect(this.#settings);
    if (this.#state === 'loading') this.#status.queued();
    else this.#status.clearError();
    // A fast search needs no word; a slow one should not look like none.
    const slow = setTimeout(() => mine.signal.aborted || this.#say(true), 150);
    this.#results.busy = true;
    try {
      // First: it may enter another mode, which loads a reader before the search.
      await this.#connection.permitted();
      if (mine.signal.aborted) return;
      await this.#answers.prepare(this.#connection, mine.signal);
      const result = await this.#connection.search(text, { k: K, filter: this.#filter(), signal: mine.signal });
      if (mine.signal.aborted) return;
      this.show(result, text);
      this.#results.reveal();
      this.#results.busy = false;
      // The search has ended; the reader goes on with the passages.
      clearTimeout(slow);
      this.#say(false);
      if (this.#client) await this.#answers.show(this.#client, text, result.hits, mine.signal);
    } catch (error) {
      // Replaced by a newer search, or the loading failed, which `connect` reports.
      if (!mine.signal.aborted && this.#state !== 'failed') this.fail(error);
    } finally {
      clearTimeout(slow);
      if (this.#running === mine) {
        this.#running = undefined;
        this.#results.busy = false;
        this.#say(false);
      }
    }
  }

  /** Gives up the search that is under way. Returns whether there was one. */
  stop(): boolean {
    const wasRunning = this.#running !== undefined;
    this.#running?.abort();
    this.#running = undefined;
    this.#results.busy = false;
    if (wasRunning && this.#state === 'loading') this.#status.unqueued();
    else if (wasRunning) this.#say(false);
    return wasRunning;
  }

  /** Shows what was found for a question. */
  show(result: SearchResult, question: string): void {
    const { hits, timings, privacy } = result;
    this.onResult?.(result);
    void this.#tellLength(question);
    this.#status.clearError();
    // Removes the answer found in the previous results.
    this.#answers.clear();
    // Of an encrypted search the server tells no time, and of a local one there is none.
    this.#results.show(hits, timings, privacy.mode === 'plain' || privacy.mode === 'blurred');
    const [best] = hits;
    announce(best ? `${hits.length === 1 ? '1 passage' : `${hits.length} passages`} found. The first: ${best.title}` : 'No passage was found.');
  }

  /** Says so where a question is as long as the encoder reads, or longer. Never rejects. */
  async #tellLength(question: string): Promise<void> {
    const notice = byId('long');
    notice.hidden = true;
    const client = this.#client;
    const tokens = await client?.countTokens(question).catch(() => 0);
    if (!client || !tokens || tokens < client.model.max_question_tokens || question !== this.#question.value.trim()) return;
    notice.textContent = `Only the beginning of this question counts: at most its first ${count(client.model.max_question_tokens)} tokens, which are words and parts of words. Ask it in fewer words.`;
    notice.hidden = false;
  }

  fail(error: unknown): void {
    // Another model since this page was loaded: searching again could only fail again.
    const isStale = error instanceof DprWebError && error.code === 'wrong_model';
    const settings = this.#settings;
    if (error instanceof DprWebError && error.code === 'plain_search_disabled') {
      this.onPlainRefused?.();
      this.#status.fail(error, 'Search privately', () => void this.search());
      return;
    }
    if (isStale && settings) this.#status.fail(error, 'Load the new model', () => void this.connect(settings).then(() => this.search()));
    else this.#status.fail(error, 'Search again', () => void this.search());
  }

  showModel(model: ModelManifest): void {
    this.#answers.offer(model);
    byId('encoder-picker').hidden = !model.small && !this.#settings?.encoder;
    byId('dim').textContent = count(model.dim);
    byId('model-name').textContent = `Model: ${model.name}.`;
  }

  #say(underWay: boolean): void {
    if (this.#state === 'ready') this.#status.searching(underWay);
  }
}
