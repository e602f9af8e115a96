import { EncoderError } from '../errors/encoder-error.js';
import type { Device } from '../types/device.js';
import type { ProgressListener } from '../types/progress.js';
import type { ModelFiles } from '../weights/model-files.js';
import type { WorkerSource } from '../worker/encoder-worker.js';
import type { FileOrder } from '../worker/file-order.js';
import { WorkerSession, type Fetched } from './worker-session.js';

/** What {@link openSession} needs. */
export interface OpenRequest {
  device: Device;
  /** Downloads them once, while the module is fetched and compiled; a shared worker may not need them. */
  files(): Promise<ModelFiles>;
  /** With it a worker of this page downloads them instead. */
  order: FileOrder | undefined;
  /** Whether `files` are needed again, on another device. */
  keepFiles: boolean;
  /** What tells the model and its format from others. */
  model: string;
  /** Numbers in a vector that the manifest promises. */
  dim: number;
  workers: WorkerSource;
  signal: AbortSignal;
  /** Longest wait for the worker's first word, in milliseconds; half of it where another worker may be tried after this one. */
  patience: number;
  onProgress: ProgressListener;
  /** Called when the module is there: what fails from then on is the device's. */
  onStarted: (() => void) | undefined;
}

/** A worker with a warm encoder in it. It is ended on failure, and whenever the signal fires, also after it is warm. */
export async function openSession(request: OpenRequest): Promise<WorkerSession> {
  const { device, files, keepFiles, model, dim, workers, patience, signal, onProgress } = request;
  signal.throwIfAborted();
  const session = new WorkerSession(device, workers, model);
  const onAbort = () => session.end(signal.reason as Error);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    // What other pages use downloads nothing for one of them.
    const order = session.isShared ? undefined : request.order;
    const hasNext = session.isShared || (device === 'webgpu' && keepFiles);
    session.onProgress = onProgress;
    const tell = (files: Fetched) => onProgress({ status: 'worker', device, ...files });
    const early = session.isShared || order ? undefined : files();
    const started = session.start(hasNext ? patience / 2 : patience, order).then((fetched) => {
      tell(fetched);
      request.onStarted?.();
    });
    await Promise.all([started, early]);
    const ordered = order && (await session.load());
    if (ordered?.fetched?.length) tell({ fetched: ordered.fetched, bytes: ordered.bytes ?? [] });
    const shape = ordered ?? (await session.find()) ?? (await session.load(await files(), keepFiles));
    if (shape?.dim !== dim) throw new EncoderError(`the encoder makes vectors of ${shape?.dim} numbers, the manifest says ${dim}`);
    return session;
  } catch (error) {
    session.end(error as Error);
    throw error;
  }
}
