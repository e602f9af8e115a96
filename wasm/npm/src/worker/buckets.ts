import type { Reply, Work } from './protocol.js';
import type { WasmBucketIndex, WasmModule } from './wasm-module.js';

/** The index in buckets of a worker. */
export class Buckets {
  #index: WasmBucketIndex | undefined;

  /** Runs one command and returns its answer. */
  run(module: WasmModule | undefined, command: Extract<Work, { type: `bucket_${string}` }>): Reply {
    const { id } = command;
    if (command.type === 'bucket_open') {
      if (!module?.BucketIndex) throw new Error('this module has no bucket search');
      this.free();
      this.#index = new module.BucketIndex(command.projection, command.centroids);
      return { type: 'numbers', id, numbers: Float64Array.of(this.#index.buckets) };
    }
    if (!this.#index) throw new Error(`\`${command.type}\` came before \`bucket_open\``);
    if (command.type === 'bucket_add') {
      this.#index.add(command.bucket, command.codes, command.passages);
      return { type: 'done', id };
    }
    const { vector } = command;
    const numbers =
      command.type === 'bucket_choose'
        ? this.#index.choose(vector, command.probes, command.decoys, command.key)
        : this.#index.search(vector, command.buckets, command.k);
    // A copy: the module may hand out a view of its own memory.
    return { type: 'numbers', id, numbers: Float64Array.from(numbers) };
  }

  /** Frees the index. */
  free(): void {
    this.#index?.free();
    this.#index = undefined;
  }
}
