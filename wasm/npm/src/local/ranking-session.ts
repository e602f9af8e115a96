import { WorkerSession } from '../encoder/worker-session.js';
import type { ProgressListener } from '../types/progress.js';
import type { WorkerSource } from '../worker/encoder-worker.js';
import { explained } from './explained.js';

/**
 * Starts a worker with the module for the CPU, wherever questions are encoded, and opens an index in it with files that
 * are downloaded meanwhile. The worker ends where that fails.
 *
 * @param open - gives the worker the files
 * @throws {@link ManifestError} for files that do not fit, {@link EncoderError} where the worker does not start
 */
export async function startRanking<Files>(
  workers: WorkerSource,
  model: string,
  files: Promise<Files>,
  open: (session: WorkerSession, files: Files) => Promise<void>,
  onProgress: ProgressListener,
  signal: AbortSignal,
): Promise<WorkerSession> {
  signal.throwIfAborted();
  const session = new WorkerSession('cpu', workers, model);
  const onAbort = () => session.end(signal.reason as Error);
  try {
    signal.addEventListener('abort', onAbort);
    const started = session.start().then((fetched) => onProgress({ status: 'worker', device: 'cpu', ...fetched }));
    await open(session, (await Promise.all([files, started]))[0]);
    return session;
  } catch (error) {
    session.end(error as Error);
    signal.throwIfAborted();
    throw explained(error, 'opened');
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** The answer of the worker. A failure becomes an error of the search; after an abort it is the reason of the signal. */
export async function asked<T>(ask: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    signal?.throwIfAborted();
    throw explained(error, 'searched');
  }
}
