import { SessionEnded, WorkerFailure } from '../encoder/worker-failure.js';
import { DprWebError } from '../errors/dpr-web-error.js';
import { EncoderError } from '../errors/encoder-error.js';
import { notStatic } from './static-manifest.js';

/** What the worker could not do, as an error of this package. */
export function explained(error: unknown, what: string): unknown {
  if (error instanceof DprWebError || !(error instanceof WorkerFailure)) return error;
  const message = `${what}: ${error.message}`;
  // The worker goes on: it is the files that are wrong.
  if (!(error instanceof SessionEnded) && error.code === 'encoder_failed') return notStatic(message);
  return new EncoderError(message, error.fix ?? 'Open the index again, or reload the page.', error.code, { cause: error });
}
