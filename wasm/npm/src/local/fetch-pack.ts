import type { ModelFile } from '../types/manifest.js';
import { fetchFile } from '../weights/fetch-file.js';
import type { FileCache } from '../weights/file-cache.js';
import type { Transport } from '../wire/transport.js';
import type { AnnouncePack } from './announce-pack.js';

/**
 * Returns the bytes of a pack of texts or of a bucket, from the cache or the network. Each request for it is announced,
 * with its own outcome.
 */
export function fetchPack(
  file: ModelFile,
  cache: FileCache,
  signal: AbortSignal,
  requests: Transport,
  announce: AnnouncePack,
): Promise<Uint8Array<ArrayBuffer>> {
  /** The try that is under way; one that brings the whole file has the outcome of its check. */
  let trying: Promise<unknown>;
  const fetching: Promise<Uint8Array<ArrayBuffer>> = fetchFile(file, cache, () => undefined, signal, {
    ...requests,
    retrying: (signal, once) => requests.retrying(signal, () => (trying = once())),
    async send(url, init) {
      const own = await requests.headers(url);
      init.signal?.throwIfAborted();
      const sent = requests.send(url, init, own);
      // The values of the page's own headers, which are keys, stay out of results and events.
      for (const name in own) own[name] = '(hidden)';
      announce({ method: 'GET', url, headers: { ...own, ...init.headers }, body: '', bytes: 0 }, trying.then(() => fetching)).catch(() => undefined);
      return sent;
    },
  });
  return fetching;
}
