import type { WorkerSession } from '../encoder/worker-session.js';
import type { ProgressListener } from '../types/progress.js';
import type { WorkerSource } from '../worker/encoder-worker.js';
import { startRanking } from './ranking-session.js';

/** A row of the index and its score. */
export interface Ranked {
  row: number;
  score: number;
}

/** Bytes of the projection and of the parts' codes, in their order. */
export interface RankingFiles {
  projection: Uint8Array<ArrayBuffer>;
  parts: { passages: number; codes: Uint8Array<ArrayBuffer> }[];
}

/** Returns the best `k` passages for a vector, best first. */
export type Rank = (vector: Float32Array<ArrayBuffer>, k: number, signal: AbortSignal) => Promise<Ranked[]>;

/**
 * Gives the codes of an index, of each part in their order, to a worker of their own, with the module for the CPU,
 * wherever questions are encoded: ranking waits for no encoder, and a lost GPU takes no codes along.
 *
 * @param files - called for each worker; the bytes are transferred
 * @param life - ends the worker
 * @throws {@link ManifestError} for codes that do not fit, {@link EncoderError} where the worker does not start
 */
export async function startRank(
  workers: WorkerSource,
  model: string,
  files: () => Promise<RankingFiles>,
  onProgress: ProgressListener,
  life: AbortSignal,
): Promise<Rank> {
  const open = async (session: WorkerSession, { projection, parts }: RankingFiles) => {
    await session.ask({ type: 'local_open', projection }, 'done', { transfer: [projection.buffer] });
    for (const { passages, codes } of parts) {
      await session.ask({ type: 'local_add', codes, passages }, 'done', { transfer: [codes.buffer] });
    }
    return session;
  };
  const ask = await startRanking(workers, model, files, open, onProgress, life);
  return (vector, k, signal) =>
    ask(async (session) => {
      const { numbers } = await session.ask({ type: 'local_rank', vector, k }, 'numbers', { signal });
      return Array.from({ length: numbers.length / 2 }, (_, at) => ({ row: numbers[at * 2]!, score: numbers[at * 2 + 1]! }));
    }, signal);
}
