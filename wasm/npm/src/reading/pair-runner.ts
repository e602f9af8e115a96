import { DprWebError } from '../errors/dpr-web-error.js';
import { EncoderError } from '../errors/encoder-error.js';
import { SessionEnded, WorkerFailure } from '../encoder/worker-failure.js';
import type { WorkerSession } from '../encoder/worker-session.js';
import type { Device, Dtype } from '../types/device.js';
import type { ModelManifest, PairModel } from '../types/manifest.js';
import type { PairFiles, PairKind } from '../types/pair-files.js';
import type { ProgressListener } from '../types/progress.js';
import type { Hit } from '../types/search-result.js';
import { noteModel } from '../weights/old-models.js';
import { untilAborted } from '../wire/until-aborted.js';
import type { WorkerSource } from '../worker/encoder-worker.js';
import { openPairSession } from './pair-session.js';
import { Pool } from './pool.js';

/** Workers on the CPU at most: each holds the model once. */
const MOST_WORKERS = 4;
/** Passages that a GPU reads at once, and that are read between two looks at the signal. */
const GPU_BATCH = 8;
/** Numbers that a reader gives for a passage that it reads: the logit of its choice; start, end and score of its best span. */
const READING = 4;

/** What a {@link PairRunner} needs. */
export interface RunnerSettings {
  kind: PairKind;
  pair: PairModel;
  encoder: ModelManifest;
  /** Address of the manifest. */
  source: string;
  device: Device;
  dtype: Dtype;
  /** One worker, whoever asks. */
  isShared: boolean;
  workers: WorkerSource;
  fetchFiles(): Promise<PairFiles>;
  onProgress: ProgressListener;
  /** Ends with the client. */
  life: AbortSignal;
}

/** What a model of pairs says of a passage. */
export interface PassageScore {
  /** The logit by which the passage is chosen; NaN where it has no text. */
  logit: number;
  /** Of a reader: its best span in the text. NaN where there is none. */
  start: number;
  end: number;
  score: number;
}

/** A reader or a reranker in its workers. */
export class PairRunner {
  readonly settings: RunnerSettings;
  #device: Device;
  #pool: Pool;
  #files: Promise<PairFiles> | undefined;
  #opening = 0;
  readonly #onLifeEnd = () => this.end(this.settings.life.reason as Error);

  constructor(settings: RunnerSettings) {
    this.settings = settings;
    this.#device = settings.device;
    this.#pool = this.#newPool();
    settings.life.addEventListener('abort', this.#onLifeEnd, { once: true });
  }

  /**
   * Starts the workers that reading so many passages takes, each with the model. Reading them then requests nothing,
   * unless a worker could not be started, is lost while it reads, or WebGPU fails in it: the one that is started in its
   * place may fetch its script, its module and, where the browser has not kept them, the model's files.
   *
   * @throws as {@link PairRunner.run}
   */
  prepare(passages: number, signal: AbortSignal): Promise<void> {
    const all = [...Array(Math.min(passages, MOST_WORKERS)).keys()];
    return this.#reading(() => this.#pool.each(this.#batches(all), async () => undefined, signal), signal);
  }

  /**
   * Reads these passages and tells of each as soon as it has been read.
   *
   * @param maxAnswerTokens - of a reader's answers, or undefined where passages are only scored, for less work
   * @throws {@link EncoderError}, {@link DownloadError}, {@link IntegrityError}, or the signal's reason
   */
  async run(
    question: string,
    hits: readonly Hit[],
    maxAnswerTokens: number | undefined,
    onRead: (position: number, score: PassageScore) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const left = new Set(hits.keys());
    const read = async () => {
      const ask = async (session: WorkerSession, batch: number[]) => {
        const numbers = await this.#ask(session, question, batch.map((at) => hits[at]!), maxAnswerTokens, signal);
        for (const [index, at] of batch.entries()) {
          left.delete(at);
          onRead(at, scoreOf(numbers, index, batch.length));
        }
      };
      await this.#pool.each(this.#batches([...left]), ask, signal);
    };
    await this.#reading(read, signal);
  }

  /** Ends the workers. */
  end(reason: Error): void {
    this.settings.life.removeEventListener('abort', this.#onLifeEnd);
    this.#pool.end(reason);
  }

  /** These passages, with those together that are read at once. */
  #batches(all: number[]): number[][] {
    const size = this.#device === 'webgpu' ? GPU_BATCH : 1;
    return Array.from({ length: Math.ceil(all.length / size) }, (_, at) => all.slice(at * size, (at + 1) * size));
  }

  /** Does what workers are needed for; what fails in them is an error of this package. */
  async #reading(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    try {
      await untilAborted(this.#orOnCpu(work, signal), signal);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof DprWebError) throw error;
      const { message } = error as Error;
      const { fix, code } = error instanceof WorkerFailure ? error : {};
      const own = code === undefined || code === 'encoder_failed' ? 'reader_failed' : code;
      const help = fix ?? (error instanceof SessionEnded ? undefined : 'Change the question and ask again.');
      throw new EncoderError(`the passages could not be read: ${message}`, help, own, { cause: error });
    }
  }

  /** Does it, and goes on with it on the CPU where WebGPU does not work. */
  async #orOnCpu(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const device = this.#device;
    try {
      return await work();
    } catch (error) {
      signal.throwIfAborted();
      if (device === 'cpu' || error instanceof DprWebError) throw error;
      // A concurrent reading may have switched to the CPU already.
      if (this.#device === device) {
        const reason = error as Error;
        this.settings.onProgress({ status: 'fallback', from: 'webgpu', to: 'cpu', reason: reason.message });
        this.#pool.end(reason);
        this.#device = 'cpu';
        this.#pool = this.#newPool();
      }
      return work();
    }
  }

  async #ask(
    session: WorkerSession,
    question: string,
    hits: Hit[],
    maxAnswerTokens: number | undefined,
    signal: AbortSignal,
  ): Promise<Float64Array> {
    const passages = { question, titles: hits.map(({ title }) => title), texts: hits.map(({ text }) => text) };
    const isScored = maxAnswerTokens === undefined;
    const command = isScored ? ({ type: 'score', ...passages } as const) : ({ type: 'read', ...passages, maxAnswerTokens } as const);
    const { numbers } = await session.ask(command, 'numbers', { signal });
    const expected = hits.length * (isScored ? 1 : READING);
    if (numbers.length !== expected) throw new WorkerFailure(`${numbers.length} numbers came, expected ${expected}`);
    return numbers;
  }

  #newPool(): Pool {
    const { isShared } = this.settings;
    const cores = (globalThis.navigator as Partial<Navigator> | undefined)?.hardwareConcurrency ?? 1;
    const size = this.#device === 'webgpu' || isShared ? 1 : Math.max(1, Math.min(cores, MOST_WORKERS));
    return new Pool(size, () => this.#open());
  }

  async #open(): Promise<WorkerSession> {
    const { kind, pair, encoder, dtype, workers, source, onProgress, life } = this.settings;
    const device = this.#device;
    this.#opening++;
    try {
      return await openPairSession({
        device,
        kind,
        model: `${pair.fingerprint} ${dtype}`,
        maxTokens: pair.max_tokens,
        workers,
        files: () => {
          if (!this.#files) {
            // So that its files stay while the question encoder's old ones go.
            const noted = noteModel(`${source}#${kind}`, {
              ...encoder,
              ...pair,
              encoder: { config: pair.config, tokenizer: pair.tokenizer },
            });
            this.#files = noted.then(() => this.settings.fetchFiles());
            this.#files.catch(() => undefined);
          }
          return this.#files;
        },
        signal: life,
        onStarted: (files) => onProgress({ status: 'worker', device, ...files }),
      });
    } finally {
      // They are in the browser's cache, should another worker be needed. A failed download is tried again.
      if (--this.#opening === 0) this.#files = undefined;
    }
  }
}

/** What the numbers of `count` passages say of one of them. */
function scoreOf(numbers: Float64Array, index: number, count: number): PassageScore {
  const each = numbers.length / count;
  const [logit, start = NaN, end = NaN, score = NaN] = numbers.subarray(index * each, (index + 1) * each);
  return { logit: logit!, start, end, score };
}
