import { typeahead, type PassageFilter, type SearchResult, type Typeahead } from 'dpr-web';
import type { Connection } from './connection.js';

/** What a search while typing shows. */
export interface TypingView {
  busy(isBusy: boolean): void;
  show(result: SearchResult, question: string): void;
  fail(error: unknown): void;
}

/** Searches with each pause of the typing: the newest text counts, and an older answer is never shown after it. */
export class Typing {
  readonly #connection: Connection;
  readonly #view: TypingView;
  readonly #k: number;
  #live: Typeahead | undefined;
  #filter: PassageFilter | undefined;

  constructor(connection: Connection, k: number, view: TypingView) {
    this.#connection = connection;
    this.#k = k;
    this.#view = view;
  }

  /** The text as it is now, to be searched among the passages of `filter`. */
  input(text: string, filter: PassageFilter | undefined): void {
    if (!this.#live || filter !== this.#filter) {
      this.stop();
      this.#filter = filter;
      this.#live = this.#begin();
    }
    this.#live.input(text);
  }

  /** Gives up what is under way. */
  stop(): void {
    if (!this.#live) return;
    this.#live.dispose();
    this.#live = undefined;
    this.#view.busy(false);
  }

  #begin(): Typeahead {
    const live = typeahead(this.#connection, { k: this.#k, debounce: 200, minLength: 2, filter: this.#filter });
    live.subscribe(({ text, status, result, error }) => {
      this.#view.busy(status === 'searching');
      if (status === 'done' && result) this.#view.show(result, text);
      if (status === 'failed') this.#view.fail(error);
    });
    return live;
  }
}
