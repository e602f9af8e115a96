import type { PrivateDesk } from '../worker/private/desk.js';
import { make, score, warmUp, type Model } from '../worker/models.js';
import { HELLO, PROTOCOL, type Command, type Reply } from '../worker/protocol.js';
import type { ModuleError } from '../worker/module-error.js';
import type { WasmModule, WasmQuestionEncoder } from '../worker/wasm-module.js';
import { fileFetch } from './files.js';

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

  postMessage(command: Command): void {
    this.#queue = this.#queue.then(() => this.#run(command));
  }

  terminate(): void {
    this.#isEnded = true;
    void this.#queue.then(() => this.#model?.it.free());
  }

  async #run(command: Command): Promise<void> {
    if (this.#isEnded) return;
    let data: Reply;
    try {
      data = await this.#answer(command);
    } catch (error) {
      const { message, fix, code } = error as ModuleError;
      // A trap leaves the module's memory in an unknown state.
      data = error instanceof WebAssembly.RuntimeError
        ? { type: 'fatal', message }
        : { type: 'failed', id: command.id, message, fix, code: fix ? code : undefined };
    }
    if (!this.#isEnded) this.onmessage?.({ data });
  }

  async #answer(command: Command): Promise<Reply> {
    const { id } = command;
    switch (command.type) {
      case 'hello':
        return { type: 'hello', id: HELLO, protocol: PROTOCOL, address: '' };
      case 'init': {
        const { cpu } = await import('../worker/wasm-cpu.js');
        const address = command.wasm ?? cpu.address().href;
        const response = await fileFetch(undefined, { readsFiles: true })(address);
        if (!response.ok) throw new Error(`${address} could not be read: ${response.statusText || response.status}`);
        await cpu.init({ module_or_path: response });
        this.#module = cpu;
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
