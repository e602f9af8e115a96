import type { WorkerSession } from '../encoder/worker-session.js';
import type { ProgressListener } from '../types/progress.js';
import type { WorkerSource } from '../worker/encoder-worker.js';
import { asked, startRanking } from './ranking-session.js';

/** A row of the index and its score. */
export interface Ranked {
  row: number;
  score: number;
}

/**
 * The codes of an index in a worker of their own, with the module for the CPU, wherever questions are encoded: ranking
 * waits for no encoder, and a lost GPU takes no codes along.
 */
export class Ranking {
  readonly #session: WorkerSession;

  private constructor(session: WorkerSession) {
    this.#session = session;
  }

  /**
   * Starts the worker and gives it the codes of each part in their order.
   *
   * @param files - the bytes of the projection and of the parts' codes, which are transferred
   * @throws {@link ManifestError} for codes that do not fit, {@link EncoderError} where the worker does not start
   */
  static async start(
    workers: WorkerSource,
    model: string,
    files: Promise<{ projection: Uint8Array<ArrayBuffer>; parts: { passages: number; codes: Uint8Array<ArrayBuffer> }[] }>,
    onProgress: ProgressListener,
    signal: AbortSignal,
  ): Promise<Ranking> {
    const open = async (session: WorkerSession, { projection, parts }: Awaited<typeof files>) => {
      await session.ask({ type: 'local_open', projection }, 'done', { transfer: [projection.buffer] });
      for (const { passages, codes } of parts) {
        await session.ask({ type: 'local_add', codes, passages }, 'done', { transfer: [codes.buffer] });
      }
    };
    return new Ranking(await startRanking(workers, model, files, open, onProgress, signal));
  }

  /** The best `k` passages for a vector, best first. */
  rank(vector: Float32Array<ArrayBuffer>, k: number, signal: AbortSignal): Promise<Ranked[]> {
    return asked(async () => {
      const { numbers } = await this.#session.ask({ type: 'local_rank', vector, k }, 'numbers', { signal });
      return Array.from({ length: numbers.length / 2 }, (_, at) => ({ row: numbers[at * 2]!, score: numbers[at * 2 + 1]! }));
    }, signal);
  }

  /** Ends the worker. */
  end(reason: Error): void {
    this.#session.end(reason);
  }
}
