import type { WorkerSession } from '../encoder/worker-session.js';
import type { ProgressListener } from '../types/progress.js';
import type { WorkerSource } from '../worker/encoder-worker.js';
import type { PassageTexts } from './passage-texts.js';
import { startRanking, type AskRanking } from './ranking-session.js';
import { notStatic } from './static-manifest.js';

/** A passage of a bucket and its score. */
export interface Placed {
  bucket: number;
  /** Its place in the bucket, from 0. */
  place: number;
  score: number;
}

/** How many buckets are fetched for a question. */
export interface Plan {
  probes: number;
  decoys: number;
}

/** The projection and the centroids of an index. */
interface BucketFiles {
  projection: Uint8Array<ArrayBuffer>;
  centroids: Uint8Array<ArrayBuffer>;
}

/** The centroids of an index and the codes of the buckets that were fetched, in a worker of their own. */
export class BucketRanking {
  readonly #session: WorkerSession;
  /** The texts of the buckets whose codes are in the worker. */
  readonly texts = new Map<number, PassageTexts>();

  private constructor(session: WorkerSession) {
    this.#session = session;
  }

  /**
   * Starts the worker and gives it the projection and the centroids, which are transferred.
   *
   * @param files - called for each worker
   * @param buckets - as the manifest says
   * @param life - ends the worker
   * @returns a function that runs a search with the ranking. After a worker has ended it passes a new ranking without
   * buckets, so a search uses one ranking for choosing, adding and ranking
   * @throws {@link ManifestError} for files that do not fit, {@link EncoderError} where the worker does not start
   */
  static start(
    workers: WorkerSource,
    model: string,
    files: () => Promise<BucketFiles>,
    buckets: number,
    onProgress: ProgressListener,
    life: AbortSignal,
  ): Promise<AskRanking<BucketRanking>> {
    const open = async (session: WorkerSession, { projection, centroids }: BucketFiles) => {
      const transfer = [projection.buffer, centroids.buffer];
      const { numbers } = await session.ask({ type: 'bucket_open', projection, centroids }, 'numbers', { transfer });
      if (numbers[0] !== buckets) throw notStatic(`the centroids of the static index are of ${numbers[0]} buckets, it has ${buckets}`);
      return new BucketRanking(session);
    };
    return startRanking(workers, model, files, open, onProgress, life);
  }

  /** The buckets that are fetched for a vector, in ascending order. They depend on nothing but its bucket and the key. */
  async choose(vector: Float32Array<ArrayBuffer>, { probes, decoys }: Plan, key: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<number[]> {
    const { numbers } = await this.#session.ask({ type: 'bucket_choose', vector, probes, decoys, key }, 'numbers', { signal });
    return [...numbers];
  }

  /** Adds a bucket: its codes, which are copied, and its texts. */
  async add(bucket: number, codes: Uint8Array<ArrayBuffer>, passages: number, texts: PassageTexts): Promise<void> {
    await this.#session.ask({ type: 'bucket_add', bucket, codes, passages }, 'done');
    this.texts.set(bucket, texts);
  }

  /** The best `k` passages of these buckets for a vector, best first. */
  async rank(vector: Float32Array<ArrayBuffer>, buckets: number[], k: number, signal: AbortSignal): Promise<Placed[]> {
    const ask = { type: 'bucket_rank', vector, buckets: Uint32Array.from(buckets), k } as const;
    const { numbers } = await this.#session.ask(ask, 'numbers', { signal });
    return Array.from({ length: numbers.length / 3 }, (_, at) => ({
      bucket: numbers[at * 3]!,
      place: numbers[at * 3 + 1]!,
      score: numbers[at * 3 + 2]!,
    }));
  }
}
