import { DownloadError } from '../errors/download-error.js';
import { retryAfter } from './retry-after.js';

/** The error for an answer that is not the file. */
export function refused(url: string, response: Response): DownloadError {
  const { status, statusText } = response;
  const reason = `the server answered ${status} ${statusText}`.trimEnd();
  return new DownloadError(url, status, reason, { retryAfter: retryAfter(response) });
}
