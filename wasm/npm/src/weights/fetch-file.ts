import { IntegrityError } from '../errors/integrity-error.js';
import type { ModelFile } from '../types/manifest.js';
import type { ProgressListener } from '../types/progress.js';
import { PLAIN, type Transport } from '../wire/transport.js';
import { download } from './download.js';
import type { FileCache } from './file-cache.js';
import { sha256Hex } from './sha256.js';

/**
 * A file's bytes, from the cache or the network, always checked against the manifest's SHA-256.
 * What fails the check is never kept: a spoiled cache entry is deleted and downloaded again, a
 * spoiled download is an error.
 *
 * @throws {@link IntegrityError}, {@link DownloadError}, {@link InsecureContextError}, or the signal's reason
 */
export async function fetchFile(
  file: ModelFile,
  cache: FileCache,
  onProgress: ProgressListener,
  signal?: AbortSignal,
  requests: Transport = PLAIN,
): Promise<Uint8Array<ArrayBuffer>> {
  const name = fileName(file.url);
  const total = file.bytes;
  signal?.throwIfAborted();
  onProgress({ status: 'initiate', file: name, total });

  const kept = await cache.read(file.sha256);
  if (kept) {
    if ((await sha256Hex(kept)) === file.sha256) {
      signal?.throwIfAborted();
      onProgress({ status: 'done', file: name, total, source: 'cache' });
      return kept;
    }
    await cache.remove(file.sha256);
  }

  const bytes = await download(name, file, onProgress, signal, requests);
  const got = await sha256Hex(bytes);
  if (got !== file.sha256) throw new IntegrityError(name, file.sha256, got);
  await cache.write(file.sha256, bytes);
  signal?.throwIfAborted();
  onProgress({ status: 'done', file: name, total, source: 'network' });
  return bytes;
}

/** Last part of an address, for people: `question_encoder.q8.safetensors`. */
function fileName(url: string): string {
  const name = new URL(url).pathname.split('/').pop() ?? url;
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // percent signs that stand for nothing
  }
}
