import type { SearchPrivacy } from './privacy.js';
import type { Hit, SearchTimings, SentRequest } from './search-result.js';

/** An answer: a span of a passage's own text. */
export interface Answer {
  /** `hit.text.slice(start, end)`. */
  text: string;
  /** The passage that it stands in. */
  hit: Hit;
  /** Position of the passage in `hits`, from 0. */
  passage: number;
  /** Where the answer begins in `hit.text`, as JavaScript counts. */
  start: number;
  /** Where it ends, exclusive. */
  end: number;
  /** How sure the reader is, from 0 to 1: `selection` times `score`. */
  confidence: number;
  /** The probability with which the passage is chosen among those that have been read. */
  selection: number;
  /** The probability of the answer's start times that of its end, within its passage. */
  score: number;
}

/** The answers after a part of the passages. */
export interface AnswerProgress {
  /** The best so far, best first. */
  answers: Answer[];
  /** Passages that have been read. */
  read: number;
  /** Passages that are to be read. */
  total: number;
}

/** What {@link SearchClient.answer} returns. */
export interface AnswerResult {
  /** Best first; none where no passage was found, or none has a text. */
  answers: Answer[];
  /** The passages that were read, in the server's order. */
  hits: readonly Hit[];
  /** Where the time went. */
  timings: SearchTimings & {
    /** Reading in this browser, with the wait for the reader when it is used for the first time. */
    readMs: number;
  };
  /** As in {@link SearchResult}. `undefined` where the passages were given. */
  request?: SentRequest | undefined;
  /** All requests of the search, as in {@link SearchResult}. `undefined` where the passages were given. */
  requests?: SentRequest[] | undefined;
  /** The mode of the search, and what the server saw of the question. `undefined` where the passages were given. */
  privacy?: SearchPrivacy | undefined;
}
