import { DownloadError } from '../errors/download-error.js';
import { IntegrityError } from '../errors/integrity-error.js';

/** What a download in a worker failed of, as it is sent to the page. */
export type SentError =
  | { file: string; expected: string; got: string }
  | { url: string; status: number; reason: string; code: string; retryAfter: number | undefined };

/** The error of a download in a worker; `undefined` for every other. */
export function sentError(error: unknown): SentError | undefined {
  if (error instanceof IntegrityError) {
    const { file, expected, got } = error;
    return { file, expected, got };
  }
  if (!(error instanceof DownloadError)) return undefined;
  const { url, status, message, code, retryAfter } = error;
  return { url, status, reason: message.slice(`${url} could not be downloaded: `.length), code, retryAfter };
}
