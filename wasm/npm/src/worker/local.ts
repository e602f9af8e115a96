import type { Reply, Work } from './protocol.js';
import type { WasmLocalIndex, WasmModule } from './wasm-module.js';

/** The local index of a worker. */
export class Local {
  #index: WasmLocalIndex | undefined;

  /** Runs one command and returns its answer. */
  run(module: WasmModule | undefined, command: Extract<Work, { type: `local_${string}` }>): Reply {
    const { id } = command;
    if (command.type === 'local_open') {
      if (!module?.LocalIndex) throw new Error('this module has no local search');
      this.free();
      this.#index = new module.LocalIndex(command.projection);
      return { type: 'done', id };
    }
    if (!this.#index) throw new Error(`\`${command.type}\` came before \`local_open\``);
    if (command.type === 'local_add') {
      this.#index.add(command.codes, command.passages);
      return { type: 'done', id };
    }
    // A copy: the module may hand out a view of its own memory.
    return { type: 'numbers', id, numbers: Float64Array.from(this.#index.search(command.vector, command.k)) };
  }

  /** Frees the index. */
  free(): void {
    this.#index?.free();
    this.#index = undefined;
  }
}
