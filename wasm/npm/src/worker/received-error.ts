import { DownloadError } from '../errors/download-error.js';
import { IntegrityError } from '../errors/integrity-error.js';
import type { SentError } from './sent-error.js';

/** The error that a worker sent, in the page. */
export function receivedError(sent: SentError): DownloadError | IntegrityError {
  return 'url' in sent
    ? new DownloadError(sent.url, sent.status, sent.reason, { retryAfter: sent.retryAfter }, sent.code)
    : new IntegrityError(sent.file, sent.expected, sent.got);
}
