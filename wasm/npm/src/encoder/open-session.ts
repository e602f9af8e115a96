import { EncoderError } from '../errors/encoder-error.js';
import type { Device } from '../types/device.js';
import type { ModelFiles } from '../weights/model-files.js';
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
  createWorker: () => Worker;
  signal: AbortSignal | undefined;
}

/** A worker with a warm encoder in it. On failure, or when the signal fires, the worker is ended. */
export async function openSession(request: OpenRequest): Promise<WorkerSession> {
  const { device, files, keepFiles, dim, createWorker, signal } = request;
  signal?.throwIfAborted();
  const session = new WorkerSession(device, createWorker);
  const onAbort = () => session.end(signal!.reason as Error);
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    const [, ready] = await Promise.all([session.init(), files]);
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
