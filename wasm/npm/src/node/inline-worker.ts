import { Engine, messageOf } from '../worker/engine.js';
import { hello, type Command, type Reply } from '../worker/protocol.js';
import type { WasmModule } from '../worker/wasm-module.js';
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
  #engine: Engine | undefined;
  #queue: Promise<void> = Promise.resolve();
  #isEnded = false;
  /**
   * The value of `traps` when the module was made. Once that has grown, the module, which all encoders of this thread
   * share, is not touched.
   */
  #since = 0;

  postMessage(command: Command): void {
    this.#queue = this.#queue.then(() => this.#run(command));
  }

  terminate(): void {
    this.#isEnded = true;
    void this.#queue.then(() => this.#since === traps && this.#engine?.free());
  }

  async #run(command: Command): Promise<void> {
    if (this.#isEnded) return;
    if (command.type === 'hello') return this.#post(hello());
    try {
      this.#engine ??= await this.#made();
    } catch (error) {
      return this.#post({ type: 'failed', id: command.id, message: messageOf(error), fix: undefined });
    }
    const isSpoilt = this.#since !== traps;
    if (isSpoilt) return this.#post({ type: 'fatal', message: 'another encoder trapped', isBystander: true });
    await this.#engine.run(command, (data) => this.#post(data));
  }

  async #made(): Promise<Engine> {
    const cpu = await freshModule();
    this.#since = traps;
    const onFatal = (message: string, isTrap = false) => {
      if (isTrap) traps++;
      this.#post({ type: 'fatal', message });
    };
    return new Engine({ cpu }, onFatal, fileFetch(undefined, { readsFiles: true }));
  }

  #post(data: Reply): void {
    if (!this.#isEnded) this.onmessage?.({ data });
  }
}
