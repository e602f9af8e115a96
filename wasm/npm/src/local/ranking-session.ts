import { WorkerSession } from '../encoder/worker-session.js';
import type { ProgressListener } from '../types/progress.js';
import type { WorkerSource } from '../worker/encoder-worker.js';
import { explained } from './explained.js';

/**
 * Runs `ask` with what was opened in the worker, which is opened again first where the worker has ended. Rejects with an
 * {@link EncoderError} or {@link ManifestError} where the worker fails, and with the signal's reason after an abort.
 */
export type AskRanking<Opened> = <T>(ask: (opened: Opened) => Promise<T>, signal: AbortSignal) => Promise<T>;

/**
 * Starts a worker with the module for the CPU, wherever questions are encoded, and opens an index in it with files that
 * are downloaded meanwhile. The worker ends where that fails. Where it ends by itself later, the next question starts
 * another.
 *
 * @param files - downloads the files; called once for each worker that is started
 * @param open - gives the worker the files
 * @param life - ends the worker when it fires, and no other is started
 * @throws {@link ManifestError} for files that do not fit, {@link EncoderError} where the worker does not start
 */
export async function startRanking<Files, Opened>(
  workers: WorkerSource,
  model: string,
  files: () => Promise<Files>,
  open: (session: WorkerSession, files: Files) => Promise<Opened>,
  onProgress: ProgressListener,
  life: AbortSignal,
): Promise<AskRanking<Opened>> {
  let opening: Promise<Opened> | undefined;
  let session: WorkerSession;
  life.addEventListener('abort', () => session.end(life.reason as Error));
  const start = async () => {
    life.throwIfAborted();
    session = new WorkerSession('cpu', workers, model);
    try {
      const started = session.start().then((fetched) => onProgress({ status: 'worker', device: 'cpu', ...fetched }));
      const opened = await open(session, (await Promise.all([files(), started]))[0]);
      session.onFatal = () => (opening = undefined);
      return opened;
    } catch (error) {
      opening = undefined;
      session.end(error as Error);
      throw explained(error, 'opened');
    }
  };
  await (opening = start());
  return async (ask, signal) => {
    try {
      return await ask(await (opening ??= start()));
    } catch (error) {
      signal.throwIfAborted();
      throw explained(error, 'searched');
    }
  };
}
