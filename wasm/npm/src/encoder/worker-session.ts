import type { Device } from '../types/device.js';
import type { ModelFiles } from '../weights/model-files.js';
import type { Command, Reply } from '../worker/protocol.js';

type CommandBody = Command extends infer C ? (C extends Command ? Omit<C, 'id'> : never) : never;

interface Pending {
  resolve(reply: Reply): void;
  reject(error: unknown): void;
}

/** The worker is gone and with it everything it was asked: start another, or give up. */
export class SessionEnded extends Error {
  override readonly name = 'SessionEnded';
}

/** One worker with one device: sends commands, matches answers, ends once. */
export class WorkerSession {
  readonly device: Device;
  /** Called once if the worker ends by itself: a lost device, a panic, a script that does not load. */
  onFatal: ((reason: SessionEnded) => void) | undefined;
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  #nextId = 0;
  #ended: Error | undefined;

  constructor(device: Device, createWorker: () => Worker) {
    this.device = device;
    this.#worker = createWorker();
    this.#worker.onmessage = ({ data }: MessageEvent<Reply>) => this.#receive(data);
    this.#worker.onerror = (event) => {
      event.preventDefault?.();
      this.#fatal(event.message || 'the worker script could not be loaded');
    };
    this.#worker.onmessageerror = () => this.#fatal('an answer of the worker could not be read');
  }

  /** Fetches and compiles the module. */
  async init(): Promise<void> {
    await this.#ask({ type: 'init', device: this.device });
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
    this.#worker.terminate();
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  #ask(command: CommandBody, transfer: Transferable[] = []): Promise<Reply> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#worker.postMessage({ ...command, id }, transfer);
    });
  }

  #receive(reply: Reply): void {
    if (reply.type === 'fatal') {
      this.#fatal(reply.message);
      return;
    }
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if (reply.type === 'failed') pending?.reject(new Error(reply.message));
    else pending?.resolve(reply);
  }

  #fatal(message: string): void {
    if (this.#ended) return;
    const reason = new SessionEnded(message);
    // Listeners first: they may already have the next session when the pending promises reject.
    this.onFatal?.(reason);
    this.end(reason);
  }
}
