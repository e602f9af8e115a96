import { SessionEnded, WorkerFailure } from '../encoder/worker-failure.js';
import { EncoderError } from '../errors/encoder-error.js';
import { notStatic } from './static-manifest.js';

/** The error of this package for a failure of the worker: the index could not be `opened` or `searched` (`done`). */
export function explained(error: unknown, done: string): unknown {
  if (!(error instanceof WorkerFailure)) return error;
  const message = `the index could not be ${done}: ${error.message}`;
  // The worker goes on: it is the files that are wrong.
  if (!(error instanceof SessionEnded) && error.code === 'encoder_failed') return notStatic(message);
  return new EncoderError(message, error.fix ?? 'Try again, or reload the page.', error.code, { cause: error });
}
