import type { Device } from '../types/device.js';
import type { ModelFiles } from '../weights/model-files.js';
import { Silence } from '../wire/silence.js';
import { fetchedScript } from '../worker/fetched-script.js';
import { HELLO, PROTOCOL, type Command, type Reply } from '../worker/protocol.js';
import type { WorkerSource } from '../worker/worker-source.js';

type CommandBody = Command extends infer C ? (C extends Command ? Omit<C, 'id'> : never) : never;

/**
 * Longest silence of a worker at each kind of work, in milliseconds. Software WebGPU and a slow line are slow; these
 * are for what will never be done. A hello has a limit of its own.
 */
const LONGEST_SILENCE: Record<Exclude<Command['type'], 'hello'>, number> = {
  init: 60_000,
  load: 120_000,
  encode: 60_000,
  measure: 60_000,
};

const WRONG_SCRIPT =
  'Check that this script is there, is not empty, and may be run by the page (worker-src of its policy). Where the bundler ' +
  'does not make it, build a worker from `dpr-web/worker` and hand it over with the option `createWorker`: see "Worker" in ' +
  'the README of dpr-web.';

interface Pending {
  type: Command['type'];
  resolve(reply: Reply): void;
  reject(error: unknown): void;
}

/** What a worker could not do, and what to do about it where that is known. */
export class WorkerFailure extends Error {
  readonly fix: string | undefined;

  constructor(message: string, fix?: string) {
    super(message);
    this.fix = fix;
  }
}

/** The worker is gone and with it everything it was asked: start another, or give up. */
export class SessionEnded extends WorkerFailure {
  override readonly name = 'SessionEnded';
}

/** One worker with one device: sends commands, matches answers, notices silence, ends once. */
export class WorkerSession {
  readonly device: Device;
  /** Called once if the worker ends by itself: a lost device, a panic, a script that does not load or answer. */
  onFatal: ((reason: SessionEnded) => void) | undefined;
  readonly #worker: Worker;
  readonly #source: WorkerSource;
  readonly #createdAt = globalThis.performance.now();
  /** In the order of the commands, which is that of the work. */
  readonly #pending = new Map<number, Pending>();
  readonly #silence = new Silence();
  #nextId = HELLO;
  /** The script's address in its own words, which may be empty; none before its hello. */
  #address: string | undefined;
  #ended: Error | undefined;

  constructor(device: Device, source: WorkerSource) {
    this.device = device;
    this.#source = source;
    try {
      this.#worker = source.create(device);
    } catch (error) {
      throw new SessionEnded(`${this.#name()} could not be made: ${(error as Error).message}`, WRONG_SCRIPT);
    }
    this.#worker.onmessage = ({ data }: MessageEvent<Reply>) => this.#receive(data);
    this.#worker.onerror = (event) => {
      event.preventDefault?.();
      if (this.#address !== undefined) this.#fatal(event.message || 'the worker failed');
      else this.#fatal(`${this.#name()} could not be loaded${event.message ? `: ${event.message}` : ''}`, WRONG_SCRIPT);
    };
    this.#worker.onmessageerror = () => this.#fatal('an answer of the worker could not be read');
  }

  /** Waits for the worker's hello, then has it fetch and compile the module. Before anything else. */
  async start(): Promise<void> {
    // Asked for, although a worker says one by itself: this one may have been running for long.
    const hello = await this.#ask({ type: 'hello' });
    if (hello.type !== 'hello') throw new SessionEnded(`unexpected answer ${hello.type}`);
    this.#address = hello.address;
    if (hello.protocol !== PROTOCOL) {
      throw new SessionEnded(
        `${this.#name()} is of another release of dpr-web than the page`,
        'Build page and worker from one release of dpr-web.',
      );
    }
    await this.#ask({ type: 'init', device: this.device, wasm: this.#source.wasm(this.device) });
  }

  /**
   * Builds the encoder and warms it up. The worker gets a copy of the files when another device may
   * need them after this one (`keepFiles`), else the files themselves.
   */
  async load(files: ModelFiles, keepFiles: boolean): Promise<{ dim: number; maxTokens: number }> {
    const transfer = keepFiles ? [] : [files.config.buffer, files.tokenizer.buffer, files.weights.buffer];
    const reply = await this.#ask({ type: 'load', files }, transfer);
    if (reply.type !== 'loaded') throw new SessionEnded(`unexpected answer ${reply.type}`);
    return { dim: reply.dim, maxTokens: reply.maxTokens };
  }

  /** `[dim]` numbers. */
  async encode(text: string): Promise<Float32Array> {
    const reply = await this.#ask({ type: 'encode', text });
    if (reply.type !== 'vector') throw new SessionEnded(`unexpected answer ${reply.type}`);
    return reply.vector;
  }

  /** Median milliseconds for one question of usual length. */
  async measure(): Promise<number> {
    const reply = await this.#ask({ type: 'measure' });
    if (reply.type !== 'measured') throw new SessionEnded(`unexpected answer ${reply.type}`);
    return reply.milliseconds;
  }

  /** Ends the worker, which frees its memory and its GPU device; what is pending rejects with `reason`. */
  end(reason: Error): void {
    if (this.#ended) return;
    this.#ended = reason;
    this.#silence.stop();
    this.#worker.terminate();
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  #ask(command: CommandBody, transfer: Transferable[] = []): Promise<Reply> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { type: command.type, resolve, reject });
      this.#worker.postMessage({ ...command, id }, transfer);
      // One that waits behind others has its time when its turn comes.
      if (this.#pending.size === 1) this.#listen();
    });
  }

  #receive(reply: Reply): void {
    if (this.#ended) return;
    if (reply.type === 'fatal') {
      this.#fatal(reply.message);
      return;
    }
    if (reply.type !== 'alive') {
      const pending = this.#pending.get(reply.id);
      this.#pending.delete(reply.id);
      if (reply.type === 'failed') pending?.reject(new WorkerFailure(reply.message, reply.fix));
      else pending?.resolve(reply);
    }
    this.#listen();
  }

  /** Gives the worker the time that the work before it may take, from now on. */
  #listen(): void {
    this.#silence.stop();
    const [first] = this.#pending.values();
    if (!first) return;
    const { type } = first;
    const limit = type === 'hello' ? this.#source.startTimeout : LONGEST_SILENCE[type];
    this.#silence.wait(limit, () => {
      const said = `${this.#name()} said nothing for ${limit / 1000} s`;
      if (type === 'hello') this.#fatal(said, WRONG_SCRIPT);
      else this.#fatal(`${said} after it was told to ${type}`);
    });
  }

  /** The worker with its address: in its own words, as the browser fetched it, or where it should be. */
  #name(): string {
    const address = this.#address || fetchedScript(this.#createdAt) || this.#source.script(this.device);
    return address ? `the worker ${address}` : 'the worker that `createWorker` returned';
  }

  #fatal(message: string, fix?: string): void {
    if (this.#ended) return;
    const reason = new SessionEnded(message, fix);
    // Listeners first: they may already have the next session when the pending promises reject.
    this.onFatal?.(reason);
    this.end(reason);
  }
}
