import { EncoderError } from '../errors/encoder-error.js';
import type { Device } from '../types/device.js';
import type { ModelFiles } from '../weights/model-files.js';
import type { WorkerSource } from '../worker/encoder-worker.js';
import { WorkerSession, type Fetched } from './worker-session.js';

/** What {@link openSession} needs. */
export interface OpenRequest {
  device: Device;
  /** Downloads them once, while the module is fetched and compiled; a shared worker may not need them. */
  files(): Promise<ModelFiles>;
  /** Whether `files` are needed again, on another device. */
  keepFiles: boolean;
  /** What tells the model and its format from others. */
  model: string;
  /** Numbers in a vector that the manifest promises. */
  dim: number;
  workers: WorkerSource;
  signal: AbortSignal;
  /** Longest wait for the worker's first word, in milliseconds. */
  patience(isShared: boolean): number;
  /** Called when the module is there: what fails from then on is the device's. */
  onStarted(files: Fetched): void;
}

/** A worker with a warm encoder in it. It is ended on failure, and whenever the signal fires, also after it is warm. */
export async function openSession(request: OpenRequest): Promise<WorkerSession> {
  const { device, files, keepFiles, model, dim, workers, signal } = request;
  signal.throwIfAborted();
  const session = new WorkerSession(device, workers, model);
  const onAbort = () => session.end(signal.reason as Error);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    const early = session.isShared ? undefined : files();
    const started = session.start(request.patience(session.isShared)).then((files) => request.onStarted(files));
    await Promise.all([started, early]);
    const shape = (await session.find()) ?? (await session.load(await files(), keepFiles));
    if (shape.dim !== dim) {
      throw new EncoderError(`the encoder makes vectors of ${shape.dim} numbers, the manifest says ${dim}`);
    }
    return session;
  } catch (error) {
    session.end(error as Error);
    throw error;
  }
}
