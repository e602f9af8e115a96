import { DownloadError } from '../errors/download-error.js';
import { loaded } from '../wire/loaded.js';
import type { SentError } from './sent-error.js';

/** The error that a worker sent, in the page. Of a file that came, the network can bring the words too. */
export async function receivedError(sent: SentError): Promise<Error> {
  if ('url' in sent) return new DownloadError(sent.url, sent.status, sent.reason, sent, sent.code);
  const { IntegrityError } = await loaded(import('../errors/integrity-error.js'));
  return new IntegrityError(sent.file, sent.expected, sent.got);
}
