import type { PrivateDesk } from '../worker/private/desk.js';
import { encoderOf, make, score, shape, warmUp, type Load, type Model } from '../worker/models.js';
import { hello, type Command, type Reply } from '../worker/protocol.js';
import type { ModuleError } from '../worker/module-error.js';
import { urlsOf, type WasmModule } from '../worker/wasm-module.js';
import { fileFetch } from './files.js';

/** How many modules have trapped in this thread. */
let traps = 0;

/**
 * The module for the CPU. After a trap it is made anew, from a script under another address: that of the first keeps the
 * memory that the trap left in an unknown state, for as long as the process runs.
 */
async function freshModule(): Promise<WasmModule> {
  const { cpu, cpuModule } = await import('../worker/wasm-cpu.js');
  if (!traps) return cpu;
  const script: string = new URL(`dpr_wasm.js?${traps}`, cpu.address()).href;
  return cpuModule((await import(script)) as Parameters<typeof cpuModule>[0]);
}

/** The encoder in this very thread, behind the interface of a web worker: whoever encodes waits meanwhile. */
export class InlineWorker {
  onmessage: ((event: { data: Reply }) => void) | null = null;
  onerror: ((event: { message: string }) => void) | null = null;
  onmessageerror: (() => void) | null = null;
  #module: WasmModule | undefined;
  #model: Model | undefined;
  #desk: PrivateDesk | undefined;
  #queue: Promise<void> = Promise.resolve();
  #isEnded = false;
  /** Traps before the module was started: the encoders of this thread share it. After the next one nothing of it is touched. */
  #since: number | undefined;

  postMessage(command: Command): void {
    this.#queue = this.#queue.then(() => this.#run(command));
  }

  terminate(): void {
    this.#isEnded = true;
    void this.#queue.then(() => this.#since === traps && this.#model?.it.free());
  }

  async #run(command: Command): Promise<void> {
    if (this.#isEnded) return;
    let data: Reply;
    try {
      data = await this.#answer(command);
    } catch (error) {
      const { message, fix, code } = error as ModuleError;
      data = error instanceof WebAssembly.RuntimeError && ++traps
        ? { type: 'fatal', message }
        : { type: 'failed', id: command.id, message, fix, code: fix ? code : undefined };
    }
    if (!this.#isEnded) this.onmessage?.({ data });
  }

  async #answer(command: Command): Promise<Reply> {
    const { id } = command;
    if ((this.#since ?? traps) !== traps) return { type: 'fatal', message: 'another encoder trapped', isBystander: true };
    switch (command.type) {
      case 'hello':
        return hello();
      case 'init': {
        const cpu = await freshModule();
        const [address] = urlsOf(cpu, command);
        const response = await fileFetch(undefined, { readsFiles: true })(address);
        if (!response.ok) throw new Error(`${address} could not be read: ${response.statusText || response.status}`);
        await cpu.init({ module_or_path: response });
        this.#module = cpu;
        this.#since = traps;
        return { type: 'done', id, fetched: [address] };
      }
      case 'load':
      case 'load_pair': {
        // Outside browsers the files are the page's to download.
        this.#model = await make(this.#module!, command as Load);
        await warmUp(this.#model);
        return shape(id, this.#model);
      }
      case 'encode':
        return { type: 'vector', id, vector: new Float32Array(await encoderOf(this.#model).encode(command.text)) };
      case 'read':
      case 'score':
        return { type: 'numbers', id, numbers: await score(this.#model, command) };
      case 'count':
        return { type: 'counted', id, tokens: encoderOf(this.#model).tokenCount(command.text) };
      case 'tokens':
        return { type: 'tokens', id, tokens: Uint32Array.from(encoderOf(this.#model).tokens(command.text)) };
      case 'private':
        this.#desk ??= this.#module!.privateDesk!();
        return { type: 'private', id, answer: await this.#desk.answer(command.call) };
      // Nothing is shared, there is one device to measure, and `dpr-web/local` has a worker of its own.
      default:
        throw new Error(`\`${command.type}\` is not for this thread`);
    }
  }
}
