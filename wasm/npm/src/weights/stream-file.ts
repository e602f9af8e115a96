import type { FileChunks, ModelFile } from '../types/manifest.js';
import type { ProgressListener } from '../types/progress.js';
import type { Transport } from '../wire/transport.js';
import { ChunkReader } from './chunks.js';
import { receive } from './download.js';
import { fileName } from './fetch-file.js';
import type { StreamCache } from './stream-cache.js';

/** A file whose parts are handed on while it arrives, each checked. */
export interface StreamedFile {
  /** Last part of its address, for people. */
  name: string;
  bytes: number;
  sha256: string;
  /** The parts, in order. It fails as the download does; whoever cancels it ends the download. */
  parts: ReadableStream<Uint8Array<ArrayBuffer>>;
  /** Settles when the first bytes are there. */
  begun: Promise<void>;
  /** Settles when all parts are there. */
  arrived: Promise<void>;
  /** Says whether the whole file was the right one. Only then it is kept; settles when it is. */
  judge(isRight: boolean): Promise<void>;
}

/**
 * A file from the cache or the network, as `fetchFile` has it: what fails a check is never kept, a kept file that is
 * spoiled is deleted and downloaded again, and of several tabs one downloads.
 */
export function streamFile(
  file: ModelFile,
  chunks: FileChunks,
  cache: StreamCache,
  locks: LockManager,
  onProgress: ProgressListener,
  requests: Transport,
  signal: AbortSignal | undefined,
): StreamedFile {
  const { bytes: total, sha256, url } = file;
  const name = fileName(url);
  const stop = new AbortController();
  signal?.addEventListener('abort', () => stop.abort(signal.reason), { signal: stop.signal });
  let out!: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>;
  const parts = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => void (out = controller),
    cancel: (reason) => stop.abort(reason),
  });
  const begun = promise<void>();
  const arrived = promise<void>();
  const verdict = promise<boolean>();
  let handedOn = 0;

  /** Reads the parts, and hands on those that were not there before. */
  const reader = (copy?: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>) =>
    new ChunkReader(name, total, chunks, (part, index) => {
      try {
        copy?.enqueue(part);
      } catch {
        // The cache has given up: it is full.
      }
      if (index < handedOn) return;
      handedOn = index + 1;
      out.enqueue(part);
      begun.resolve();
    });
  const end = (source: 'cache' | 'network') => {
    onProgress({ status: 'done', file: name, total, source });
    out.close();
    arrived.resolve();
  };

  const fromCache = async (): Promise<boolean> => {
    const kept = (await cache.open(sha256))?.getReader();
    if (!kept) return false;
    const parts = reader();
    try {
      let at = 0;
      for (let next = await kept.read(); !next.done; next = await kept.read()) {
        await parts.take(next.value, at);
        at += next.value.length;
        stop.signal.throwIfAborted();
      }
    } catch {
      stop.signal.throwIfAborted();
    }
    if (parts.isWhole) return true;
    await kept.cancel().catch(() => undefined);
    await cache.remove(sha256);
    return false;
  };
  const fromNetwork = async () => {
    let copy!: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>;
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({ start: (controller) => void (copy = controller) });
    const written = cache.write(sha256, body, total);
    try {
      const parts = reader(copy);
      const answered: ProgressListener = (event) => {
        begun.resolve();
        onProgress(event);
      };
      await receive(name, file, (bytes, at) => parts.take(bytes, at), answered, stop.signal, requests, 'no-store');
      end('network');
      if (!(await verdict.promise)) throw new Error('it is not the right file');
      try {
        copy.close();
      } catch {
        // As above.
      }
    } catch (error) {
      copy.error(error);
      throw error;
    } finally {
      await written;
    }
  };
  const work = async () => {
    stop.signal.throwIfAborted();
    onProgress({ status: 'initiate', file: name, total });
    if (await fromCache()) return true;
    return locks.request(`dpr-web:${sha256}`, { signal: stop.signal }, async () => {
      if (await fromCache()) return true;
      await fromNetwork();
      return false;
    });
  };
  const over = work().then(async (isKept) => {
    if (!isKept) return;
    end('cache');
    // The parts were right, and the whole is not: the manifest contradicts itself.
    if (!(await verdict.promise)) await cache.remove(sha256);
  });
  over.catch((error: unknown) => {
    out.error(error);
    begun.reject(error);
    arrived.reject(error);
  });
  return {
    name,
    bytes: total,
    sha256,
    parts,
    begun: begun.promise,
    arrived: arrived.promise,
    async judge(isRight) {
      verdict.resolve(isRight);
      if (!isRight) stop.abort(new Error('nobody wants the file any more'));
      await over.catch(() => undefined);
    },
  };
}

/** A promise that is settled from elsewhere; its failure is heard of by whoever waits for it. */
function promise<T>(): { promise: Promise<T>; resolve(value: T): void; reject(error: unknown): void } {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  promise.catch(() => undefined);
  return { promise, resolve, reject };
}
