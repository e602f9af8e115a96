import { IntegrityError } from '../errors/integrity-error.js';
import type { ModelFile } from '../types/manifest.js';
import type { ProgressListener } from '../types/progress.js';
import { PLAIN, type Transport } from '../wire/transport.js';
import { untilAborted } from '../wire/until-aborted.js';
import { download } from './download.js';
import type { FileCache } from './file-cache.js';
import { sha256Hex } from './sha256.js';

/**
 * A file's bytes, from the cache or the network, always checked against the manifest's SHA-256. What fails the check is
 * never kept: a spoiled cache entry is deleted and downloaded again, a spoiled download is an error. Of several clients
 * and tabs that want the same file at once, one downloads it; the others wait and take it from the cache.
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
  const done = (bytes: Uint8Array<ArrayBuffer>, source: 'cache' | 'network') => {
    signal?.throwIfAborted();
    onProgress({ status: 'done', file: name, total, source });
    return bytes;
  };
  signal?.throwIfAborted();
  onProgress({ status: 'initiate', file: name, total });

  const kept = await fromCache(file, cache);
  if (kept) return done(kept, 'cache');
  const fetched = async () => {
    const bytes = await download(name, file, onProgress, signal, requests, cache.keeps ? 'no-store' : 'default');
    const got = await sha256Hex(bytes);
    if (got !== file.sha256) throw new IntegrityError(name, file.sha256, got);
    await cache.write(file.sha256, bytes, bytes.length);
    return done(bytes, 'network');
  };
  const locks = (globalThis.navigator as Partial<Navigator> | undefined)?.locks;
  // Without a cache other tabs could take it from nowhere.
  if (!locks || !cache.keeps) return once(file.sha256, fetched, (bytes) => done(bytes, 'network'), signal);
  return locks.request(`dpr-web:${file.sha256}`, signal ? { signal } : {}, async () => {
    const arrived = await fromCache(file, cache);
    return arrived ? done(arrived, 'cache') : fetched();
  });
}

/** Files that this page downloads at the moment, by their SHA-256. */
const underWay = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();

/** Downloads a file, or takes a copy of what another client of this page downloads; once that fails, it is its turn. */
async function once(
  sha256: string,
  fetched: () => Promise<Uint8Array<ArrayBuffer>>,
  taken: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>,
  signal: AbortSignal | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  for (let other = underWay.get(sha256); other; other = underWay.get(sha256)) {
    // A copy, before the other client hands its bytes to a worker.
    const copy = await untilAborted(other.then((bytes) => bytes.slice()).catch(() => undefined), signal);
    if (copy) return taken(copy);
  }
  const own = fetched();
  underWay.set(sha256, own);
  const over = () => underWay.delete(sha256);
  own.then(over, over);
  return own;
}

/** The file as it was kept, if it is still what it was. */
async function fromCache(file: ModelFile, cache: FileCache): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const kept = await cache.read(file.sha256);
  if (!kept || (await sha256Hex(kept)) === file.sha256) return kept;
  await cache.remove(file.sha256);
  return undefined;
}

/** Last part of an address, for people: `question_encoder.q8.safetensors`. */
export function fileName(url: string): string {
  const name = new URL(url).pathname.split('/').pop()!;
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // percent signs that stand for nothing
  }
}
