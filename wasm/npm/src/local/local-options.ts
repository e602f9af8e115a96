import type { ExpectedIndex } from '../types/expected-model.js';
import type { EncodeOptions, LoadOptions } from '../types/options.js';
import type { Hit, SentRequest } from '../types/search-result.js';

/** Options of {@link LocalSearch.open}. */
export interface LocalOptions extends Omit<LoadOptions, 'baseUrl' | 'expect' | 'measure'> {
  /**
   * What the page knows about the index and its model beforehand. Another one is a {@link ModelMismatchError} before
   * any of its files is downloaded.
   * @example { expect: { fingerprint: '53aa…', index: '9d31…' } }
   */
  expect?: ExpectedIndex | undefined;
  /**
   * Which texts are downloaded before the first question. `all`, the default: nothing is requested by a search.
   * `packs`: none; a search fetches packs of neighbouring passages, and whoever hosts the files sees which packs. The
   * index must have been exported with packs.
   * @example { texts: 'packs' }
   */
  texts?: 'all' | 'packs' | undefined;
}

/** Options of {@link LocalSearch.search}. */
export interface LocalSearchOptions extends EncodeOptions {
  /**
   * How many passages to return, from 1 on. Default 10.
   * @example { k: 5 }
   */
  k?: number | undefined;
}

/** Where the time went, in milliseconds. */
export interface LocalTimings {
  /** Text to vector, with the wait for earlier questions. */
  encodeMs: number;
  /** Vector to passages: the ranking of all passages, and the texts of those found. */
  searchMs: number;
  /** The part of `searchMs` in which passages were ranked. */
  tookMs: number;
}

/** What {@link LocalSearch.search} returns. */
export interface LocalResult {
  /** Best passage first. `score` is about the inner product that a server would return. */
  hits: Hit[];
  timings: LocalTimings;
  /** The requests that the search made: none, or those for each pack (`texts: 'packs'`) or bucket that was not kept. */
  requests: readonly SentRequest[];
}
