import { safely } from '../encoder/safely.js';
import { asyncDispose, dispose } from '../types/disposable.js';
import type { SearchOptions } from '../types/options.js';
import type { SearchResult } from '../types/search-result.js';
import type { SearchClient } from './search-client.js';

const DEFAULT_DEBOUNCE = 100;
const DEFAULT_REMEMBER = 20;

/** Options of {@link typeahead}; those of a search apply to every one. */
export interface TypeaheadOptions extends Omit<SearchOptions, 'signal'> {
  /**
   * Milliseconds without a key before the text is searched. Default 100.
   * @example { debounce: 200 }
   */
  debounce?: number | undefined;
  /**
   * Texts with fewer characters, without the spaces around them, are not searched. Default 1.
   * @example { minLength: 3 }
   */
  minLength?: number | undefined;
  /**
   * How many answers are kept, for texts that are typed again; `0` for none. Default 20.
   * @example { remember: 0 }
   */
  remember?: number | undefined;
}

/** What a {@link Typeahead} shows. */
export interface TypeaheadState {
  /** The text that this is about, without the spaces around it. */
  text: string;
  /**
   * `idle`: too short to be searched. `waiting`: for the next key, for so long as `debounce` says. `searching`: encoded
   * and sent. `done`: `result` is the answer. `failed`: `error` says why there is none.
   */
  status: 'idle' | 'waiting' | 'searching' | 'done' | 'failed';
  /** With `done`, the answer; before it, the last answer, which may be shown until then. */
  result?: SearchResult | undefined;
  /** With `failed`. */
  error?: unknown;
}

/** Searches while somebody types: {@link typeahead} makes one. */
export interface Typeahead extends Disposable {
  /** The text as it is now. Searched when no other follows in time; a search for an earlier text is given up. */
  input(text: string): void;
  /** Searches the text now, as for the key Enter. */
  flush(): void;
  /** What is to be shown. */
  readonly state: TypeaheadState;
  /**
   * Calls `listener` with each new state, and at once with the present one.
   * @returns a function that ends it
   */
  subscribe(listener: (state: TypeaheadState) => void): () => void;
  /** Gives up what is under way. The client goes on. */
  dispose(): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Searches while somebody types: waits for a pause, gives up what is stale, never shows an older answer after a newer
 * one, and does not ask twice for the same text. Begins to load the encoder with the first text.
 *
 * @example
 * const live = typeahead(client, { k: 5 });
 * input.addEventListener('input', () => live.input(input.value));
 * live.subscribe(({ status, result, error }) => render(status, result?.hits, error));
 */
export function typeahead(client: Pick<SearchClient, 'search' | 'preload'>, options: TypeaheadOptions = {}): Typeahead {
  const { debounce = DEFAULT_DEBOUNCE, minLength = 1, remember = DEFAULT_REMEMBER, ...search } = options;
  const listeners = new Set<(state: TypeaheadState) => void>();
  const known = new Map<string, SearchResult>();
  let state: TypeaheadState = { text: '', status: 'idle' };
  let timer: ReturnType<typeof setTimeout> | undefined;
  let running: AbortController | undefined;
  let isDisposed = false;

  const show = (next: TypeaheadState) => {
    state = next;
    for (const listener of [...listeners]) safely(listener)(next);
  };
  const stop = () => {
    clearTimeout(timer);
    running?.abort();
    running = undefined;
  };
  const keep = (text: string, result: SearchResult) => {
    known.delete(text);
    known.set(text, result);
    if (known.size > remember) known.delete(known.keys().next().value!);
  };

  async function run(text: string): Promise<void> {
    stop();
    const mine = (running = new AbortController());
    show({ text, status: 'searching', result: state.result });
    try {
      const result = await client.search(text, { ...search, signal: mine.signal });
      if (mine.signal.aborted) return;
      keep(text, result);
      show({ text, status: 'done', result });
    } catch (error) {
      if (!mine.signal.aborted) show({ text, status: 'failed', error });
    }
  }

  return {
    input(given) {
      const text = given.trim();
      if (isDisposed || (text === state.text && state.status !== 'failed')) return;
      stop();
      if (text.length < Math.max(1, minLength)) {
        show({ text, status: 'idle' });
        return;
      }
      void client.preload();
      const result = known.get(text);
      if (result) {
        keep(text, result);
        show({ text, status: 'done', result });
        return;
      }
      timer = setTimeout(() => void run(text), debounce);
      show({ text, status: 'waiting', result: state.result });
    },
    flush() {
      if (isDisposed) return;
      if (state.status === 'waiting' || state.status === 'failed') void run(state.text);
    },
    get state() {
      return state;
    },
    subscribe(listener) {
      listeners.add(listener);
      listener(state);
      return () => listeners.delete(listener);
    },
    dispose() {
      isDisposed = true;
      stop();
      listeners.clear();
    },
    [dispose]() {
      this.dispose();
    },
    async [asyncDispose]() {
      this.dispose();
    },
  };
}
