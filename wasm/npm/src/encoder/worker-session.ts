import type { DprWebErrorCode } from '../errors/dpr-web-error.js';
import type { Device } from '../types/device.js';
import type { ModelFiles } from '../weights/model-files.js';
import { Silence } from '../wire/silence.js';
import { fetchedScript } from '../worker/fetched-script.js';
import { median } from '../worker/median.js';
import { HELLO, PROTOCOL, type Command, type Reply } from '../worker/protocol.js';
import type { EncoderWorker, WorkerSource } from '../worker/encoder-worker.js';
import { untilAborted } from '../wire/until-aborted.js';
import { SessionEnded, WorkerFailure } from './worker-failure.js';

type CommandBody = Command extends infer C ? (C extends Command ? Omit<C, 'id' | 'model'> : never) : never;

/**
 * Longest silence of a worker, in milliseconds: at work of usual length, and where a model is loaded. Software WebGPU
 * and a slow line are slow; these are for what will never be done. A hello has a limit of its own.
 */
const LONGEST_SILENCE = 60_000;
const LONGEST_LOADING = 120_000;
const MEASURE_RUNS = 7;
/** A slow device is known to be slow before it has run that often, in milliseconds. */
const MEASURE_BUDGET = 2000;

const WRONG_SCRIPT =
  'Check that this script is there and allowed (worker-src, trusted types, cross-origin-embedder-policy), or give one of ' +
  '`dpr-web/worker` (`createWorker`): see "Worker" in the README of dpr-web.';

/** What a loaded encoder says of itself. */
export interface EncoderShape {
  dim: number;
  maxTokens: number;
}

/** Addresses that a worker fetched, and the bytes that came for each. */
export interface Fetched {
  fetched: string[];
  bytes: number[];
}

interface Job {
  command: CommandBody;
  transfer: Transferable[];
  resolve(reply: Reply): void;
  reject(error: unknown): void;
}

/**
 * One worker with one device: sends one command at a time, notices silence, ends once. What waits for its turn waits
 * here, where it can still be taken back.
 */
export class WorkerSession {
  readonly device: Device;
  /** Whether other clients use the worker too. */
  readonly isShared: boolean;
  /** Called once if the worker ends by itself: a lost device, a panic, a script that does not load or answer. */
  onFatal: ((reason: SessionEnded) => void) | undefined;
  readonly #worker: EncoderWorker;
  readonly #model: string;
  readonly #source: WorkerSource;
  readonly #createdAt = globalThis.performance.now();
  readonly #waiting: Job[] = [];
  readonly #silence = new Silence();
  #current: Job | undefined;
  #id = HELLO - 1;
  /** The script's address in its own words, which may be empty; none before its hello. */
  #address: string | undefined;
  #patience = 0;
  #ended: Error | undefined;
  /** Why it is to end once nothing waits any more. */
  #closing: Error | undefined;

  /** @param model - what tells the model and its format from others */
  constructor(device: Device, source: WorkerSource, model: string) {
    this.device = device;
    this.#model = model;
    this.#source = source;
    try {
      this.#worker = source.create(device);
      this.isShared = this.#worker.isShared ?? false;
    } catch (error) {
      if (error instanceof WorkerFailure) throw error;
      const message = `${this.#name()} could not be made: ${(error as Error).message}`;
      throw new SessionEnded(message, 'worker_not_loaded', WRONG_SCRIPT);
    }
    this.#worker.onmessage = ({ data }: MessageEvent<Reply>) => this.#receive(data);
    this.#worker.onerror = (event) => {
      event.preventDefault?.();
      if (this.#address !== undefined) {
        this.#fatal(event.message || 'the worker failed');
        return;
      }
      const why = event.message ? `: ${event.message}` : '';
      this.#fatal(`${this.#name()} could not be loaded${why}`, 'worker_not_loaded', WRONG_SCRIPT);
    };
    this.#worker.onmessageerror = () => this.#fatal('an answer of the worker could not be read');
  }

  /**
   * Waits for the worker's hello, then has it fetch and compile the module. Before anything else.
   * @param patience - longest wait for the hello, in milliseconds
   * @returns the addresses that the worker fetched, and the bytes of each
   */
  async start(patience = this.#source.startTimeout): Promise<Fetched> {
    this.#patience = patience;
    // Asked for, although a worker says one by itself: this one may have been running for long.
    const { address, protocol } = await this.ask({ type: 'hello' }, 'hello');
    this.#address = address;
    if (protocol !== PROTOCOL) {
      throw new SessionEnded(
        `${this.#name()} is of another release of dpr-web than the page`,
        'worker_version',
        'Build page and worker from one release of dpr-web.',
      );
    }
    const wasm = this.#source.wasm(this.device);
    const { fetched = [], bytes = [] } = await this.ask({ type: 'init', device: this.device, wasm }, 'done');
    return { fetched, bytes };
  }

  /**
   * Builds the encoder and warms it up. The worker gets a copy of the files when another device may
   * need them after this one (`keepFiles`), else the files themselves.
   */
  async load(files: ModelFiles, keepFiles: boolean): Promise<EncoderShape> {
    const transfer = keepFiles ? [] : [files.config.buffer, files.tokenizer.buffer, files.weights.buffer];
    return this.ask({ type: 'load', files }, 'loaded', { transfer });
  }

  /** The encoder's shape where another client of a shared worker has loaded the model. */
  async find(): Promise<EncoderShape | undefined> {
    if (!this.isShared) return undefined;
    const reply = await this.ask({ type: 'find' }, ['loaded', 'needed']);
    return reply.type === 'loaded' ? reply : undefined;
  }

  /** `[dim]` numbers. A question that is still waiting when the signal fires is not encoded. */
  async encode(text: string, signal?: AbortSignal): Promise<Float32Array> {
    return (await this.ask({ type: 'encode', text }, 'vector', { signal })).vector;
  }

  /** Tokens of a text, special ones included, at most as many as the encoder takes. */
  async count(text: string, signal?: AbortSignal): Promise<number> {
    return (await this.ask({ type: 'count', text }, 'counted', { signal })).tokens;
  }

  /** Median milliseconds for one question of usual length, in runs of one each: questions go before. */
  async measure(): Promise<number> {
    const times: number[] = [];
    const end = performance.now() + MEASURE_BUDGET;
    while (times.length < MEASURE_RUNS && (times.length === 0 || performance.now() < end)) {
      times.push((await this.ask({ type: 'measure' }, 'measured')).milliseconds);
    }
    return median(times);
  }

  /** Ends the worker, which frees its memory and its GPU device; what it was asked rejects with `reason`. */
  end(reason: Error): void {
    if (this.#ended) return;
    this.#ended = reason;
    this.#silence.stop();
    this.#worker.terminate();
    this.#current?.reject(reason);
    for (const { reject } of this.#waiting.splice(0)) reject(reason);
  }

  /** Ends it after what it was asked so far. */
  finish(reason: Error): void {
    this.#closing = reason;
    this.#next();
  }

  /** Sends a command in its turn and returns the answer. What waits when the signal fires is not sent. */
  async ask<T extends Reply['type']>(
    command: CommandBody,
    answer: T | T[],
    { transfer = [], signal }: { transfer?: Transferable[]; signal?: AbortSignal | undefined } = {},
  ): Promise<Extract<Reply, { type: T }>> {
    if (this.#ended) throw this.#ended;
    let job: Job | undefined;
    const reply = await untilAborted(
      new Promise<Reply>((resolve, reject) => {
        job = { command, transfer, resolve, reject };
        // Timing waits for questions, whenever they come.
        const first = this.#waiting.findIndex(({ command }) => command.type === 'measure');
        this.#waiting.splice(command.type === 'measure' || first < 0 ? this.#waiting.length : first, 0, job);
        if (!signal?.aborted) this.#next();
      }),
      signal,
      () => {
        const at = this.#waiting.indexOf(job!);
        if (at >= 0) this.#waiting.splice(at, 1);
      },
    );
    if (![answer].flat().includes(reply.type as T)) throw new SessionEnded(`unexpected answer ${reply.type}`);
    return reply as Extract<Reply, { type: T }>;
  }

  /** Sends what has waited longest, if the worker has nothing to do. */
  #next(): void {
    if (this.#ended || this.#current) return;
    this.#current = this.#waiting.shift();
    if (this.#current) {
      const { command, transfer } = this.#current;
      this.#worker.postMessage({ ...command, model: this.#model, id: ++this.#id } as Command, transfer);
      this.#listen(command.type);
    } else if (this.#closing) {
      this.end(this.#closing);
    }
  }

  #receive(reply: Reply): void {
    const job = this.#current;
    if (reply.type === 'fatal') {
      this.#fatal(reply.message, undefined, undefined, !reply.isBystander);
    } else if (this.#ended || !job) {
      // Of a command that nobody waits for any more.
    } else if (reply.type === 'alive') {
      this.#listen(job.command.type);
    } else if (reply.id === this.#id) {
      this.#silence.stop();
      this.#current = undefined;
      if (reply.type === 'failed') job.reject(new WorkerFailure(reply.message, reply.code, reply.fix));
      else job.resolve(reply);
      this.#next();
    }
  }

  /** Gives the worker the time that its work may take, from now on. */
  #listen(type: Command['type']): void {
    const limit = type === 'hello' ? this.#patience : /find|load/.test(type) ? LONGEST_LOADING : LONGEST_SILENCE;
    this.#silence.wait(limit, () => {
      const said = `${this.#name()} said nothing for ${limit / 1000} s`;
      if (type === 'hello') this.#fatal(said, 'worker_silent', WRONG_SCRIPT);
      else this.#fatal(`${said} after it was told to ${type}`, 'worker_silent');
    });
  }

  /** The worker with its address: in its own words, as the browser fetched it, or where it should be. */
  #name(): string {
    const address = this.#address || fetchedScript(this.#createdAt) || this.#source.script(this.device);
    return address ? `the worker ${address}` : 'the worker that `createWorker` returned';
  }

  #fatal(message: string, code?: DprWebErrorCode, fix?: string, begun = true): void {
    if (this.#ended) return;
    const reason = new SessionEnded(message, code, fix);
    this.#current?.reject(Object.assign(new SessionEnded(message, code, fix), { begun }));
    // Whoever waits hears of it later than the listener, which may have begun with the next session by then.
    this.onFatal?.(reason);
    this.end(reason);
  }
}
