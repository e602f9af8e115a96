import { openCache } from './open-cache.js';

/** The beginning of the names of caches for the files of private modes: one for each mode and server. */
export const PRIVATE_CACHE = 'dpr-web-private-v1 ';

/** Keeps model files between visits, by their SHA-256. */
export interface FileCache {
  /** Whether what is written may be there at the next visit. */
  readonly keeps: boolean;
  /** The bytes kept under this SHA-256, not yet checked, or `undefined`. */
  read(sha256: string): Promise<Uint8Array<ArrayBuffer> | undefined>;
  /**
   * Stores a file of this length in bytes. A stream is stored when it has ended, and discarded when it fails. Where the
   * quota is exceeded nothing is stored and nothing is thrown: the file is downloaded again next time.
   */
  write(sha256: string, file: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>, length: number): Promise<void>;
  remove(sha256: string): Promise<void>;
}

/**
 * The entry of a file. It is named by its content, not by its server: two servers with the same file share one entry.
 * The address is never fetched; it only has to be an http(s) one.
 */
export function fileKey(sha256: string): string {
  return `https://dpr-web.invalid/sha256/${sha256}`;
}

/**
 * The browser's Cache API, or a cache that keeps nothing where there is none (some private modes,
 * insecure contexts): a model then loads on each visit, and works.
 */
export async function openFileCache(open = openCache): Promise<FileCache> {
  const cache = await open();
  return {
    keeps: cache !== undefined,
    async read(sha256) {
      try {
        const response = await cache?.match(fileKey(sha256));
        return response && new Uint8Array(await response.arrayBuffer());
      } catch {
        return undefined;
      }
    },
    async write(sha256, file, length) {
      try {
        const headers = { 'content-type': 'application/octet-stream', 'content-length': String(length) };
        await cache?.put(fileKey(sha256), new Response(file, { headers }));
      } catch {
        // QuotaExceededError and the like: the encoder works all the same.
      }
    },
    async remove(sha256) {
      await cache?.delete(fileKey(sha256)).catch(() => false);
    },
  };
}
