import { PrivateDesk } from '../worker/private/desk.js';
import type { WasmPrivate } from '../worker/private/wasm-private.js';
import { make, score, warmUp, type Model } from '../worker/models.js';
import { HELLO, PROTOCOL, type Command, type Reply } from '../worker/protocol.js';
import type { ModuleError } from '../worker/module-error.js';
import type { WasmModule, WasmQuestionEncoder } from '../worker/wasm-module.js';
import { fileFetch } from './files.js';

/** How many modules have trapped in this thread. */
let traps = 0;

/**
 * The module for the CPU. After a trap it is made anew, from a script under another address: that of the first keeps the
 * memory that the trap left in an unknown state, for as long as the process runs.
 */
async function freshModule(): Promise<WasmModule> {
  const { cpu } = await import('../worker/wasm-cpu.js');
  if (traps === 0) return cpu;
  const script = new URL(`dpr_wasm.js?after-trap=${traps}`, cpu.address()).href;
  const { default: init, ...all } = (await import(script)) as WasmModule & WasmPrivate & { default: WasmModule['init'] };
  const { QuestionEncoder, Reader, CrossEncoder } = all;
  return { init, QuestionEncoder, Reader, CrossEncoder, privateDesk: () => new PrivateDesk(all), address: cpu.address };
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
  /** Traps before the module was started: the encoders of this thread share it. */
  #since = traps;

  postMessage(command: Command): void {
    this.#queue = this.#queue.then(() => this.#run(command));
  }

  terminate(): void {
    this.#isEnded = true;
    void this.#queue.then(() => {
      if (this.#since === traps) this.#model?.it.free();
    });
  }

  async #run(command: Command): Promise<void> {
    if (this.#isEnded) return;
    let data: Reply;
    try {
      data = await this.#answer(command);
    } catch (error) {
      const { message, fix, code } = error as ModuleError;
      const isTrap = error instanceof WebAssembly.RuntimeError;
      if (isTrap) {
        traps++;
        // Nothing of it is touched again, not even to free it.
        this.#model = undefined;
      }
      data = isTrap
        ? { type: 'fatal', message }
        : { type: 'failed', id: command.id, message, fix, code: fix ? code : undefined };
    }
    if (!this.#isEnded) this.onmessage?.({ data });
  }

  async #answer(command: Command): Promise<Reply> {
    const { id } = command;
    if (this.#module && this.#since !== traps) {
      this.#model = undefined;
      return { type: 'fatal', message: 'a question of another encoder ended the module', isBystander: true };
    }
    switch (command.type) {
      case 'hello':
        return { type: 'hello', id: HELLO, protocol: PROTOCOL, address: '' };
      case 'init': {
        const cpu = await freshModule();
        const address = command.wasm ?? cpu.address().href;
        const response = await fileFetch(undefined, { readsFiles: true })(address);
        if (!response.ok) throw new Error(`${address} could not be read: ${response.statusText || response.status}`);
        await cpu.init({ module_or_path: response });
        this.#module = cpu;
        this.#since = traps;
        return { type: 'done', id, fetched: [address] };
      }
      case 'load':
      case 'load_pair': {
        const model = await make(this.#module!, command);
        this.#model = model;
        await warmUp(model);
        const { maxTokens, device } = model.it;
        return { type: 'loaded', id, dim: model.kind === 'encoder' ? model.it.dim : 0, maxTokens, device };
      }
      case 'encode':
        return { type: 'vector', id, vector: new Float32Array(await this.#encoder().encode(command.text)) };
      case 'read':
      case 'score':
        return { type: 'numbers', id, numbers: await score(this.#model, command) };
      // Nothing is shared: the model is always asked for.
      case 'find':
        return { type: 'needed', id };
      case 'count':
        return { type: 'counted', id, tokens: this.#encoder().tokenCount(command.text) };
      case 'tokens':
        return { type: 'tokens', id, tokens: Uint32Array.from(this.#encoder().tokens(command.text)) };
      case 'private':
        this.#desk ??= this.#module!.privateDesk!();
        return { type: 'private', id, answer: await this.#desk.answer(command.call) };
      // There is one device to measure, and `dpr-web/local` has a worker of its own.
      default:
        throw new Error(`\`${command.type}\` is not for this thread`);
    }
  }

  #encoder(): WasmQuestionEncoder {
    if (this.#model?.kind !== 'encoder') throw new Error('a question came before `load`');
    return this.#model.it;
  }
}
