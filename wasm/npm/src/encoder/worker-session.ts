import type { DprWebErrorCode } from '../errors/dpr-web-error.js';
import type { Device } from '../types/device.js';
import type { ProgressListener } from '../types/progress.js';
import type { ModelFiles } from '../weights/model-files.js';
import { Silence } from '../wire/silence.js';
import type { EncoderWorker, WorkerSource } from '../worker/encoder-worker.js';
import type { FileOrder } from '../worker/file-order.js';
import { HELLO, PROTOCOL, type Command, type Reply } from '../worker/protocol.js';
import { receivedError } from '../worker/received-error.js';
import { untilAborted } from '../wire/until-aborted.js';
import { SessionEnded, WorkerFailure } from './worker-failure.js';

/** A command without what a session adds. */
export type CommandBody = Command extends infer C ? (C extends Command ? Omit<C, 'id' | 'model'> : never) : never;

/**
 * Longest silence of a worker, in milliseconds: at work of usual length, and where a model is loaded. Software WebGPU
 * and a slow line are slow; these are for what will never be done. A hello has a limit of its own.
 */
const LONGEST_SILENCE = 60_000;
const LONGEST_LOADING = 120_000;

/** The advice where the script that gives it at length could not be loaded either. */
const WRONG_SCRIPT = 'See "Worker" in the README of dpr-web.';

/** What a loaded encoder says of itself. */
export interface EncoderShape {
  dim: number;
  maxTokens: number;
}

/** The shape, and what the worker fetched of an order. */
export type LoadedShape = EncoderShape & Partial<Fetched>;

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
  readonly isShared: boolean = false;
  /** Called once if the worker ends by itself: a lost device, a panic, a script that does not load or answer. */
  onFatal: ((reason: SessionEnded) => void) | undefined;
  /** Called with each step of the downloads of an order. */
  onProgress: ProgressListener | undefined;
  readonly #worker: EncoderWorker | undefined;
  readonly #model: string;
  readonly #source: WorkerSource;
  readonly #createdAt = globalThis.performance.now();
  readonly #waiting: Job[] = [];
  /** Timing waits for questions, whenever they come. */
  readonly #idle: Job[] = [];
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
    let worker: EncoderWorker;
    try {
      worker = source.create(device);
    } catch (error) {
      // Heard of when it is started.
      const message = `the worker could not be made: ${(error as Error).message}`;
      this.#ended = error instanceof WorkerFailure ? error : new SessionEnded(message, 'worker_not_loaded', WRONG_SCRIPT);
      return;
    }
    this.#worker = worker;
    this.isShared = worker.isShared ?? false;
    worker.onmessage = ({ data }: MessageEvent<Reply>) => this.#receive(data);
    worker.onerror = (event) => {
      event.preventDefault?.();
      const why = event.message;
      if (this.#address !== undefined) this.#fatal(why || 'the worker failed');
      else this.#fatal(`the worker could not be loaded${why ? `: ${why}` : ''}`, 'worker_not_loaded', WRONG_SCRIPT);
    };
    worker.onmessageerror = () => this.#fatal('an answer could not be read');
  }

  /**
   * Waits for the worker's hello, then has it fetch and compile the module. Before anything else.
   * @param patience - longest wait for the hello, in milliseconds
   * @param order - files that the worker downloads meanwhile
   * @returns the addresses that the worker fetched, and the bytes of each
   */
  async start(patience = this.#source.startTimeout, order?: FileOrder): Promise<Fetched> {
    this.#patience = patience;
    try {
      // Asked for, although a worker says one by itself: this one may have been running for long.
      const { address, protocol } = await this.ask({ type: 'hello' }, 'hello');
      this.#address = address;
      if (protocol !== PROTOCOL) {
        throw new SessionEnded('the worker is of another release', 'worker_version', WRONG_SCRIPT);
      }
    } catch (error) {
      if (!(error instanceof WorkerFailure)) throw error;
      // The words are a script of their own.
      const part = await import('../worker/explain-failure.js').catch(() => undefined);
      throw part?.explained(error, this.#source, this.device, this.#createdAt, this.#address) ?? error;
    }
    const { device } = this;
    const { wasm } = this.#source;
    const start = { type: 'init', device, wasm: wasm(device), relaxed: wasm('relaxed'), order } as const;
    const { fetched = [], bytes = [] } = await this.ask(start, 'done');
    return { fetched, bytes };
  }

  /**
   * Builds the encoder and warms it up, from the files of the order, or from these. The worker gets a copy of them when
   * another device may need them after this one (`keepFiles`), or the tab's own worker after a shared one, else the
   * files themselves.
   *
   * @returns `undefined` where the worker cannot download the files of the order
   */
  load(files?: ModelFiles, keepFiles?: boolean): Promise<LoadedShape | undefined> {
    const transfer = keepFiles || this.isShared || !files ? [] : Object.values(files).map(({ buffer }) => buffer);
    return this.#shape({ type: 'load', files }, transfer);
  }

  /** The encoder's shape where another client of a shared worker has loaded the model. */
  async find(): Promise<LoadedShape | undefined> {
    return this.isShared ? this.#shape({ type: 'find' }) : undefined;
  }

  /** Ends the worker, which frees its memory and its GPU device; what it was asked rejects with `reason`. */
  end(reason: Error): void {
    if (this.#ended) return;
    this.#ended = reason;
    this.#silence.stop();
    this.#worker?.terminate();
    this.#current?.reject(reason);
    for (const { reject } of [...this.#waiting.splice(0), ...this.#idle.splice(0)]) reject(reason);
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
        (command.type === 'measure' ? this.#idle : this.#waiting).push(job);
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

  async #shape(command: CommandBody, transfer: Transferable[] = []): Promise<LoadedShape | undefined> {
    const reply = await this.ask(command, ['loaded', 'needed'], { transfer });
    return reply.type === 'loaded' ? reply : undefined;
  }

  /** Sends what has waited longest, if the worker has nothing to do. */
  #next(): void {
    if (this.#ended || this.#current) return;
    this.#current = this.#waiting.shift() ?? this.#idle.shift();
    if (this.#current) {
      const { command, transfer } = this.#current;
      this.#worker!.postMessage({ ...command, model: this.#model, id: ++this.#id } as Command, transfer);
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
    } else if (!('id' in reply)) {
      this.#listen(job.command.type);
      if ('event' in reply) this.onProgress?.(reply.event);
    } else if (reply.id === this.#id) {
      this.#silence.stop();
      this.#current = undefined;
      if (reply.type !== 'failed') job.resolve(reply);
      else if (reply.error) receivedError(reply.error).then(job.reject, job.reject);
      else job.reject(new WorkerFailure(reply.message, reply.code, reply.fix));
      this.#next();
    }
  }

  /** Gives the worker the time that its work may take, from now on. */
  #listen(type: Command['type']): void {
    const limit = type === 'hello' ? this.#patience : /find|load/.test(type) ? LONGEST_LOADING : LONGEST_SILENCE;
    this.#silence.wait(limit, () => {
      const said = `the worker ${this.#address ? `${this.#address} ` : ''}said nothing for ${limit / 1000} s`;
      if (type === 'hello') this.#fatal(said, 'worker_silent', WRONG_SCRIPT);
      else this.#fatal(`${said} after it was told to ${type}`, 'worker_silent');
    });
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
