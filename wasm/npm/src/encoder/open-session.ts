import { EncoderError } from '../errors/encoder-error.js';
import type { Device } from '../types/device.js';
import type { ModelFiles } from '../weights/model-files.js';
import type { WorkerSource } from '../worker/worker-source.js';
import { WorkerSession } from './worker-session.js';

/** What {@link openSession} needs. */
export interface OpenRequest {
  device: Device;
  /** May still be downloading: the module is fetched and compiled meanwhile. */
  files: Promise<ModelFiles>;
  /** Whether `files` are needed again, on another device. */
  keepFiles: boolean;
  /** Numbers in a vector that the manifest promises. */
  dim: number;
  workers: WorkerSource;
  signal: AbortSignal | undefined;
}

/** A worker with a warm encoder in it. On failure, or when the signal fires, the worker is ended. */
export async function openSession(request: OpenRequest): Promise<WorkerSession> {
  const { device, files, keepFiles, dim, workers, signal } = request;
  // A failed download is heard of below, or nobody asks any more.
  files.catch(() => undefined);
  signal?.throwIfAborted();
  const session = new WorkerSession(device, workers);
  const onAbort = () => session.end(signal!.reason as Error);
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    const [, ready] = await Promise.all([session.start(), files]);
    const shape = await session.load(ready, keepFiles);
    if (shape.dim !== dim) {
      throw new EncoderError(`the encoder makes vectors of ${shape.dim} numbers, the manifest says ${dim}`);
    }
    return session;
  } catch (error) {
    session.end(error as Error);
    throw error;
  } finally {
    signal?.removeEventListener('abort', onAbort);
  }
}
