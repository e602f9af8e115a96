import type { Device } from '../types/device.js';

/** The question encoder that both WebAssembly modules export. */
export interface WasmQuestionEncoder {
  /** `[dim]` numbers. */
  encode(text: string): Promise<Float32Array>;
  readonly dim: number;
  readonly maxTokens: number;
  readonly device: string;
  free(): void;
}

/** What `wasm-bindgen --target web` makes of the crate `dpr-wasm`. */
export interface WasmModule {
  default(): Promise<unknown>;
  QuestionEncoder: {
    load(config: Uint8Array, tokenizer: Uint8Array, weights: Uint8Array): Promise<WasmQuestionEncoder>;
  };
}

/**
 * Fetches and compiles the module for a device, and only that one. Literal import paths: bundlers
 * have to see them.
 */
export async function importModule(device: Device): Promise<WasmModule> {
  const module: WasmModule =
    device === 'webgpu'
      ? await import('../../wasm/webgpu/dpr_wasm.js')
      : await import('../../wasm/cpu/dpr_wasm.js');
  await module.default();
  return module;
}
