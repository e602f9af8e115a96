import type { QuestionEncoder } from '../encoder/question-encoder.js';
import type { WorkerSession } from '../encoder/worker-session.js';
import type { Hit } from '../types/search-result.js';
import type { Announce, PrivateParts } from './parts.js';

/** A question, encoded, on its way into a private mode. */
export interface Asked {
  parts: PrivateParts;
  encoder: QuestionEncoder;
  /** The worker that computes. */
  session: WorkerSession;
  text: string;
  vector: Float32Array;
  k: number;
  signal: AbortSignal;
  /** What the worker knows the question by. */
  search: number;
  announce: Announce;
}

/** What a private mode found. */
export interface Found {
  hits: Hit[];
  /** Milliseconds by the server's clock; 0 where it says nothing. */
  tookMs: number;
  sees: string;
}
