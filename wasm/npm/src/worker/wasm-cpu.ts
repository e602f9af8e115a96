import init, { QuestionEncoder } from '../../wasm/cpu/dpr_wasm.js';
import type { WasmModule } from './wasm-module.js';

/** The SIMD module. Literal paths: bundlers have to see them. */
export const cpu: WasmModule = {
  init,
  QuestionEncoder,
  address: () => new URL('../../wasm/cpu/dpr_wasm_bg.wasm', import.meta.url),
};
