import { WorkerSession, type Fetched } from '../encoder/worker-session.js';
import type { Device } from '../types/device.js';
import type { PairFiles, PairKind } from '../types/pair-files.js';
import type { WorkerSource } from '../worker/encoder-worker.js';

/** What {@link openPairSession} needs. */
export interface PairRequest {
  device: Device;
  kind: PairKind;
  /** What tells the model and its format from others. */
  model: string;
  maxTokens: number;
  workers: WorkerSource;
  /** Downloads them once, however many workers need them; a shared worker may not. */
  files(): Promise<PairFiles>;
  signal: AbortSignal;
  onStarted(files: Fetched): void;
}

/** A worker with a warm model of pairs in it. On failure, or when the signal fires, the worker is ended. */
export async function openPairSession(request: PairRequest): Promise<WorkerSession> {
  const { device, kind, model, maxTokens, workers, files, signal } = request;
  signal.throwIfAborted();
  const session = new WorkerSession(device, workers, model);
  const onAbort = () => session.end(signal.reason as Error);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    const early = session.isShared ? undefined : files();
    const started = session.start().then((files) => request.onStarted(files));
    await Promise.all([started, early]);
    if (!(await session.find())) {
      // A copy: the next worker needs them too.
      await session.ask({ type: 'load_pair', kind, files: await files(), maxTokens }, 'loaded');
    }
    return session;
  } catch (error) {
    session.end(error as Error);
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
