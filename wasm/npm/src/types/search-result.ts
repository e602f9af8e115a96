import type { Metadata } from './metadata.js';

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
}

/** Where the time went, in milliseconds. */
export interface SearchTimings {
  /** Text to vector, in this browser, with the wait for earlier questions. */
  encodeMs: number;
  /** Vector to passages: the request as the page sees it. */
  searchMs: number;
  /** The part of `searchMs` that the server spent searching, by its own clock. */
  tookMs: number;
}

/** The one request a search makes, exactly as it was handed to `fetch`. */
export interface SentRequest {
  method: 'POST';
  url: string;
  /** Headers set by this package and by the `headers` option. The browser adds its own. */
  headers: Record<string, string>;
  /** The body: the vector in base64, `k`, and the model's fingerprint. */
  body: string;
  /** Length of the body in bytes. */
  bytes: number;
}

/** What {@link SearchClient.search} returns. */
export interface SearchResult {
  /** Best passage first. */
  hits: Hit[];
  timings: SearchTimings;
  request: SentRequest;
}
