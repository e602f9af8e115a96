import { safely } from '../encoder/safely.js';
import { PrivacyError } from '../errors/privacy-error.js';
import type { ModelFile } from '../types/manifest.js';
import { fetchFile } from '../weights/fetch-file.js';
import { fileKey, openFileCache, PRIVATE_CACHE } from '../weights/file-cache.js';
import type { PrivateParts } from './parts.js';

/** Most bytes that a page downloads before the first question of a mode. */
const MOST = 2 ** 28;

/**
 * The files of a mode, from the browser's cache or the server, each checked by its SHA-256. Those of this mode that the
 * server had before leave the cache.
 *
 * @throws {@link PrivacyError} `too_large`, and what model files throw
 */
export async function fetchFiles(
  parts: PrivateParts,
  mode: string,
  files: ModelFile[],
): Promise<Uint8Array<ArrayBuffer>[]> {
  const [, source, options, requests, life] = parts;
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  if (!(total <= MOST)) {
    throw new PrivacyError(
      'too_large',
      `${mode} search would download ${total} bytes first, more than the ${MOST} that a page should`,
      'Nothing was sent. Choose another mode.',
    );
  }
  const open = () => globalThis.caches?.open(`${PRIVATE_CACHE}${mode} ${source.href}`);
  const cache = await openFileCache(async () => open()?.catch(() => undefined));
  const onProgress = safely(options.onProgress);
  const found: Uint8Array<ArrayBuffer>[] = [];
  for (const file of files) found.push(await fetchFile(file, cache, onProgress, life, requests));
  void tidy(open, files);
  return found;
}

/** Removes what is none of these files. Never rejects: a cache that cannot be tidied is a full cache. */
async function tidy(open: () => Promise<Cache> | undefined, files: ModelFile[]): Promise<void> {
  try {
    const cache = await open();
    const named = new Set(files.map(({ sha256 }) => fileKey(sha256)));
    for (const { url } of (await cache?.keys()) ?? []) if (!named.has(url)) await cache?.delete(url);
  } catch {
    // As above.
  }
}
