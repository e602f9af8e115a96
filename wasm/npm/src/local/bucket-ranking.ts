import type { WorkerSession } from '../encoder/worker-session.js';
import type { ProgressListener } from '../types/progress.js';
import type { WorkerSource } from '../worker/encoder-worker.js';
import { asked, startRanking } from './ranking-session.js';
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

/** The centroids of an index and the codes of the buckets that were fetched, in a worker of their own. */
export class BucketRanking {
  readonly #session: WorkerSession;

  private constructor(session: WorkerSession) {
    this.#session = session;
  }

  /**
   * Starts the worker and gives it the projection and the centroids, which are transferred.
   *
   * @param buckets - as the manifest says
   * @throws {@link ManifestError} for files that do not fit, {@link EncoderError} where the worker does not start
   */
  static async start(
    workers: WorkerSource,
    model: string,
    files: Promise<{ projection: Uint8Array<ArrayBuffer>; centroids: Uint8Array<ArrayBuffer> }>,
    buckets: number,
    onProgress: ProgressListener,
    signal: AbortSignal,
  ): Promise<BucketRanking> {
    const open = async (session: WorkerSession, { projection, centroids }: Awaited<typeof files>) => {
      const transfer = [projection.buffer, centroids.buffer];
      const { numbers } = await session.ask({ type: 'bucket_open', projection, centroids }, 'numbers', { transfer });
      if (numbers[0] !== buckets) throw notStatic(`the centroids of the static index are of ${numbers[0]} buckets, it has ${buckets}`);
    };
    return new BucketRanking(await startRanking(workers, model, files, open, onProgress, signal));
  }

  /** The buckets that are fetched for a vector, in ascending order. They depend on nothing but its bucket and the key. */
  choose(vector: Float32Array<ArrayBuffer>, { probes, decoys }: Plan, key: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<number[]> {
    return asked(async () => {
      const { numbers } = await this.#session.ask({ type: 'bucket_choose', vector, probes, decoys, key }, 'numbers', { signal });
      return [...numbers];
    }, signal);
  }

  /** Adds the codes of a bucket, which are copied. */
  add(bucket: number, codes: Uint8Array<ArrayBuffer>, passages: number): Promise<void> {
    return asked(async () => {
      await this.#session.ask({ type: 'bucket_add', bucket, codes, passages }, 'done');
    });
  }

  /** The best `k` passages of these buckets for a vector, best first. */
  rank(vector: Float32Array<ArrayBuffer>, buckets: number[], k: number, signal: AbortSignal): Promise<Placed[]> {
    return asked(async () => {
      const ask = { type: 'bucket_rank', vector, buckets: Uint32Array.from(buckets), k } as const;
      const { numbers } = await this.#session.ask(ask, 'numbers', { signal });
      return Array.from({ length: numbers.length / 3 }, (_, at) => ({
        bucket: numbers[at * 3]!,
        place: numbers[at * 3 + 1]!,
        score: numbers[at * 3 + 2]!,
      }));
    }, signal);
  }

  /** Ends the worker. */
  end(reason: Error): void {
    this.#session.end(reason);
  }
}
