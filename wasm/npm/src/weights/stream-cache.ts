import { type FileCache, fileKey, openFileCache } from './file-cache.js';
import { openCache } from './open-cache.js';

/** A cache of files that are read while they come from the disk. */
export interface StreamCache extends FileCache {
  /** The bytes kept under this SHA-256 as a stream, not yet checked, or `undefined`. */
  open(sha256: string): Promise<ReadableStream<Uint8Array> | undefined>;
}

/** The cache of {@link openFileCache}, with streams of what it keeps. */
export async function openStreamCache(open = openCache): Promise<StreamCache> {
  const cache = await open();
  return {
    ...(await openFileCache(async () => cache)),
    async open(sha256) {
      try {
        return (await cache?.match(fileKey(sha256)))?.body ?? undefined;
      } catch {
        return undefined;
      }
    },
  };
}
