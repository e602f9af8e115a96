import type { QuestionEncoder } from '../encoder/question-encoder.js';
import type { ClientBase } from '../reading/reading.js';
import type { EncodeOptions } from '../types/options.js';
import type { SentRequest } from '../types/search-result.js';

/** Takes a request that has been handed to `fetch`, and returns its answer. */
export type Announce = <T>(request: SentRequest, sent: Promise<T>) => Promise<T>;

/** What of a client private search needs. */
export type PrivateParts = [
  ...ClientBase,
  /** Does something with the encoder; once more with another one where the server has another model. */
  within: <T>(
    options: EncodeOptions,
    work: (encoder: QuestionEncoder, signal: AbortSignal, start: number) => Promise<T>,
  ) => Promise<T>,
  /** Tells the page of a request that has been handed to `fetch`. */
  announced: <T>(request: SentRequest, signal: AbortSignal, sent: Promise<T>) => Promise<T>,
];
