import { openCache } from './open-cache.js';

/** The beginning of the names of caches for the files of private modes: one for each mode and server. */
export const PRIVATE_CACHE = 'dpr-web-private-v1 ';

/** Keeps model files between visits, by their SHA-256. */
export interface FileCache {
  /** Whether what is written may be there at the next visit. */
  readonly keeps: boolean;
  /** The bytes kept under this SHA-256, not yet checked, or `undefined`. */
  read(sha256: string): Promise<Uint8Array<ArrayBuffer> | undefined>;
  /** Keeps the bytes. A full disk is no error: the file is downloaded again next time. */
  write(sha256: string, bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  remove(sha256: string): Promise<void>;
  /** The bytes kept under this SHA-256 as a stream, not yet checked, or `undefined`. */
  open(sha256: string): Promise<ReadableStream<Uint8Array> | undefined>;
  /** Keeps a stream of so many bytes, once it has ended; one that fails is not kept. A full disk is no error. */
  keep(sha256: string, bytes: number, body: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void>;
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
  const put = async (sha256: string, bytes: number, body: BodyInit) => {
    try {
      const headers = { 'content-type': 'application/octet-stream', 'content-length': String(bytes) };
      await cache?.put(fileKey(sha256), new Response(body, { headers }));
    } catch {
      // QuotaExceededError and the like: the encoder works all the same.
    }
  };
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
    write: (sha256, bytes) => put(sha256, bytes.length, bytes),
    keep: put,
    async open(sha256) {
      try {
        return (await cache?.match(fileKey(sha256)))?.body ?? undefined;
      } catch {
        return undefined;
      }
    },
    async remove(sha256) {
      await cache?.delete(fileKey(sha256)).catch(() => false);
    },
  };
}
