import type { DprWebError } from '../errors/dpr-web-error.js';
import type { Metadata } from './metadata.js';
import type { SearchPrivacy } from './privacy.js';

/** One passage found. */
export interface Hit {
  /** The passage's id in the corpus. */
  id: string;
  /** Similarity of question and passage (inner product); higher is better. */
  score: number;
  title: string;
  text: string;
  /** Where the passage has any. */
  metadata?: Metadata;
  /**
   * The score by which it was re-ranked, a logit: the larger, the more relevant. Only where `rerank` was asked for, of
   * the passages that were.
   */
  rerankScore?: number;
}

/** Where the time went, in milliseconds. */
export interface SearchTimings {
  /**
   * Text to vector, in this browser, with the wait for earlier questions and, on a client that is not ready, for the
   * encoder.
   */
  encodeMs: number;
  /** Vector to passages: the request as the page sees it. */
  searchMs: number;
  /**
   * The part of `searchMs` that the server spent searching, by its own clock; 0 for `encrypted`, where it says nothing,
   * and for `local` and `bucket`.
   */
  tookMs: number;
  /** Re-ranking in this browser, with the wait for the model when it is used for the first time. */
  rerankMs?: number;
}

/** A request of a search, as it was handed to `fetch`. */
export interface SentRequest {
  /** `GET` for packs of texts in `local`, for buckets, and for what has changed since the tables of `encrypted`. */
  method: 'POST' | 'GET';
  url: string;
  /**
   * Headers set by this package, and the names of those of the option `headers`, with `(hidden)` for their values,
   * which may be keys. The browser adds its own.
   */
  headers: Record<string, string>;
  /**
   * The body. In `plain`: the vector in base64, `k`, and the model's fingerprint. In `encrypted`, bytes. Of a `GET`,
   * empty.
   */
  body: string | Uint8Array;
  /** Length of the body in bytes. */
  bytes: number;
}

/** What {@link SearchClient.search} returns. */
export interface SearchResult {
  /** Best passage first. */
  hits: Hit[];
  timings: SearchTimings;
  /**
   * The first of `requests`, and in `plain` the last, which was answered; `undefined` where there is none, as in
   * `local`.
   */
  request: SentRequest | undefined;
  /**
   * All requests of the search, in their order, further tries among them: one, or two where it is `encrypted`, and one
   * between them for what has changed since the last search; none where it is `local`, but one for each pack of texts
   * with `texts: 'packs'`; where it is `bucket`, one for each bucket that was not kept yet.
   */
  requests: SentRequest[];
  /** The mode of the search, and what the server saw of the question. */
  privacy: SearchPrivacy;
  /** Where `rerank` was asked for: whether `hits` are in its order, and not in the server's. */
  reranked?: boolean;
  /** Why they are not. */
  rerankError?: DprWebError;
}
