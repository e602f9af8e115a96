import type { Device } from '../types/device.js';
import { Buckets } from './buckets.js';
import { watchDeviceLoss } from './device-watch.js';
import { Local } from './local.js';
import { encoderOf, isStreamed, make, SAMPLE, score, shape, warmUp, type Load, type Model } from './models.js';
import { ModuleError } from './module-error.js';
import { OrderedFiles } from './ordered-files.js';
import type { PrivateDesk } from './private/desk.js';
import type { Reply, Work } from './protocol.js';
import { sentError } from './sent-error.js';
import { typedQuestion } from './typed-question.js';
import { startModule, type ModuleAddresses, type WasmModule, type WasmQuestionEncoder } from './wasm-module.js';

/** Sends an answer to the page that gave the command. */
export type Post = (message: Reply, transfer?: Transferable[]) => void;

/**
 * One WebAssembly module and the models made with it. It fetches the module's own file and, where the page orders them,
 * the files of a model.
 */
export class Engine {
  readonly #offered: Partial<Record<Device, WasmModule>>;
  readonly #onFatal: (message: string, isTrap?: boolean) => void;
  readonly #request: typeof fetch | undefined;
  readonly #models = new Map<string, Model>();
  readonly #local = new Local();
  readonly #buckets = new Buckets();
  #module: WasmModule | undefined;
  #desk: PrivateDesk | undefined;
  #ordered: OrderedFiles | undefined;
  /** Address that the module came from. */
  #started: Promise<string> | undefined;

  /**
   * @param onFatal - called when the models cannot be used any more; after a trap nor can the module
   * @param request - fetches the module in the place of `fetch`, outside of a worker: only the module's address is then
   * told as fetched
   */
  constructor(
    offered: Partial<Record<Device, WasmModule>>,
    onFatal: (message: string, isTrap?: boolean) => void,
    request?: typeof fetch,
  ) {
    this.#offered = offered;
    this.#onFatal = onFatal;
    this.#request = request;
  }

  /** Runs one command and answers it. The next one must wait until this has settled. Never rejects. */
  async run(command: Work, post: Post): Promise<void> {
    try {
      await this.#answer(command, post);
    } catch (error) {
      const isAsked = command.type === 'encode' || command.type === 'read' || command.type === 'score';
      const fault = isTrap(error) ? error : isAsked ? await this.#faultOf(command.model) : undefined;
      if (fault !== undefined) {
        // Outside of a worker the console is that of whoever asked, who gets the error.
        if (!this.#request) console.error(error);
        this.#onFatal(messageOf(error), isTrap(fault));
      }
      const { code, fix } = error instanceof ModuleError ? error : {};
      post({ type: 'failed', id: command.id, message: messageOf(error), fix, code, error: sentError(error) });
    }
  }

  /** Frees all other models. Not while a command runs. */
  keep(models: ReadonlySet<string | undefined>): void {
    for (const [model, { it }] of this.#models) {
      if (models.has(model)) continue;
      this.#models.delete(model);
      it.free();
    }
  }

  /** Frees all that was made. Not while a command runs. */
  free(): void {
    this.keep(new Set());
    this.#local.free();
    this.#buckets.free();
    this.#desk?.free();
  }

  async #answer(command: Work, post: Post): Promise<void> {
    const { id } = command;
    const alive = () => post({ type: 'alive' });
    switch (command.type) {
      case 'init': {
        this.#started ??= this.#start(command.device, command, alive).catch((error: unknown) => {
          // Another page may say another address.
          this.#started = undefined;
          throw error;
        });
        if (command.order) this.#ordered = new OrderedFiles(command.order, post);
        // A download that failed is heard of at once.
        const module = await (this.#ordered?.unlessFailed(this.#started) ?? this.#started);
        const told = this.#request ? { fetched: [module] } : fetchedWith(module, this.#ordered?.urls);
        post({ type: 'done', id, ...told });
        return;
      }
      case 'find': {
        const model = this.#models.get(command.model);
        post(model ? shape(id, model) : { type: 'needed', id });
        return;
      }
      case 'load': {
        const ordered = command.files ? undefined : this.#ordered;
        const files = command.files ?? (await ordered?.take(alive));
        this.#ordered = undefined;
        if (!files) {
          post({ type: 'needed', id });
          return;
        }
        // Another page may have been faster.
        const known = this.#models.get(command.model);
        if (known && isStreamed(files)) void files.weights.judge(false);
        const model = known ?? (await this.#load({ ...command, files }, alive));
        post({ ...shape(id, model), ...(ordered && fetchedOf(ordered.urls)) });
        return;
      }
      case 'load_pair': {
        // Another page may have been faster.
        const model = this.#models.get(command.model) ?? (await this.#load(command, alive));
        post(shape(id, model));
        return;
      }
      case 'encode': {
        // A copy: the module may hand out a view of its own memory, which cannot be transferred.
        const vector = new Float32Array(await this.#loaded(command.model).encode(typedQuestion(command.text)));
        post({ type: 'vector', id, vector }, [vector.buffer]);
        return;
      }
      case 'count': {
        post({ type: 'counted', id, tokens: this.#loaded(command.model).tokenCount(typedQuestion(command.text)) });
        return;
      }
      case 'tokens': {
        const tokens = this.#loaded(command.model).tokens(typedQuestion(command.text));
        post({ type: 'tokens', id, tokens: Uint32Array.from(tokens) });
        return;
      }
      case 'private': {
        this.#desk ??= this.#module?.privateDesk?.();
        if (!this.#desk) throw new ModuleError('this worker does no private search: it has not the module for the CPU');
        post({ type: 'private', id, answer: await this.#desk.answer(command.call) });
        return;
      }
      case 'read':
      case 'score': {
        const numbers = await score(this.#models.get(command.model), command);
        post({ type: 'numbers', id, numbers }, [numbers.buffer]);
        return;
      }
      case 'local_open':
      case 'local_add':
      case 'local_rank': {
        post(this.#local.run(this.#module, command));
        return;
      }
      case 'bucket_open':
      case 'bucket_choose':
      case 'bucket_add':
      case 'bucket_rank': {
        post(this.#buckets.run(this.#module, command));
        return;
      }
      case 'measure': {
        const start = performance.now();
        await this.#loaded(command.model).encode(SAMPLE);
        post({ type: 'measured', id, milliseconds: performance.now() - start });
        return;
      }
    }
  }

  async #start(device: Device, addresses: ModuleAddresses, alive: () => void): Promise<string> {
    const wanted = this.#offered[device];
    if (!wanted) {
      throw new ModuleError(
        `this worker has no module for the device ${device}`,
        'Let `createWorker` return a worker for the device it is given, or one that runs `dpr-web/worker`.',
      );
    }
    if (device === 'webgpu') watchDeviceLoss(this.#onFatal);
    const from = await startModule(wanted, addresses, alive, this.#request);
    this.#module = wanted;
    return from;
  }

  async #load(command: Load, alive: () => void): Promise<Model> {
    if (!this.#module) throw new Error(`\`${command.type}\` came before \`init\``);
    const model = await make(this.#module, command, alive);
    alive();
    const kept = command.type === 'load' && isStreamed(command.files) ? command.files.weights.judge(true) : undefined;
    // The first question compiles shaders or code; better now than when somebody waits.
    await Promise.all([warmUp(model), kept]);
    this.#models.set(command.model, model);
    return model;
  }

  /**
   * Returns what a model that cannot be used any more fails with, or `undefined` where it works: tells a device that
   * cannot encode any more from a question that cannot be encoded.
   */
  async #faultOf(model: string): Promise<unknown> {
    const it = this.#models.get(model);
    if (!it) return new Error('the model is not loaded');
    try {
      await warmUp(it);
      return undefined;
    } catch (error) {
      return error ?? new Error('the model does not work');
    }
  }

  #loaded(model: string): WasmQuestionEncoder {
    return encoderOf(this.#models.get(model));
  }
}

/** Whether it is a trap (a Rust panic), which leaves the module's memory in an unknown state. */
function isTrap(error: unknown): boolean {
  return error instanceof WebAssembly.RuntimeError;
}

/** Bytes that came over the network, by the address that they came from. */
function transferred(): Map<string, number> {
  const listed = (globalThis.performance?.getEntriesByType?.('resource') ?? []) as PerformanceResourceTiming[];
  return new Map(listed.map(({ name, transferSize = 0 }) => [name, transferSize]));
}

/** What this worker fetched: its script, what that imports, and the module from this address; not these files. */
function fetchedWith(module: string, files: string[] = []): { fetched: string[]; bytes: number[] } {
  const bytes = transferred();
  for (const file of files) bytes.delete(file);
  const script = globalThis.location?.href;
  const fetched = [...new Set([...(script ? [script] : []), ...bytes.keys(), module])];
  return { fetched, bytes: fetched.map((name) => bytes.get(name) ?? 0) };
}

/** Which of these files this worker fetched. */
function fetchedOf(files: string[]): { fetched: string[]; bytes: number[] } {
  const bytes = transferred();
  const fetched = files.filter((name) => bytes.has(name));
  return { fetched, bytes: fetched.map((name) => bytes.get(name)!) };
}

/** The first line of an error's message. */
export function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  // What follows is the chain of causes and a backtrace: the console has them.
  return text.split('\n', 1)[0]!;
}
