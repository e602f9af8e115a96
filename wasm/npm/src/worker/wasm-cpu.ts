import init, * as all from '../../wasm/cpu/dpr_wasm.js';
import { PrivateDesk } from './private/desk.js';
import type { WasmPrivate } from './private/wasm-private.js';
import type { WasmModule } from './wasm-module.js';

const { BucketIndex, CrossEncoder, LocalIndex, QuestionEncoder, Reader } = all;

/** The SIMD module. Literal paths: bundlers have to see them. */
export const cpu: WasmModule = {
  init,
  QuestionEncoder,
  Reader,
  CrossEncoder,
  LocalIndex,
  BucketIndex,
  privateDesk: () => new PrivateDesk(all as unknown as WasmPrivate),
  address: () => new URL('../../wasm/cpu/dpr_wasm_bg.wasm', import.meta.url),
};
