import init, { CrossEncoder, EncoderBuilder, QuestionEncoder, Reader } from '../../wasm/webgpu/dpr_wasm.js';
import type { WasmModule } from './wasm-module.js';

/** The WebGPU module. Literal paths: bundlers have to see them. */
export const webgpu: WasmModule = {
  init,
  EncoderBuilder,
  QuestionEncoder,
  Reader,
  CrossEncoder,
  address: () => new URL('../../wasm/webgpu/dpr_wasm_bg.wasm', import.meta.url),
};
