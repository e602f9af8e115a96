import init, * as all from '../../wasm/cpu/dpr_wasm.js';
import { hasRelaxedSimd } from '../device/relaxed-simd.js';
import { PrivateDesk } from './private/desk.js';
import type { WasmPrivate } from './private/wasm-private.js';
import type { WasmModule } from './wasm-module.js';

const { BucketIndex, CrossEncoder, LocalIndex, QuestionEncoder, Reader } = all;

/**
 * The SIMD module, and where the engine has relaxed SIMD the one with that, which the same script serves. Literal paths:
 * bundlers have to see them.
 */
export const cpu: WasmModule = {
  init,
  QuestionEncoder,
  Reader,
  CrossEncoder,
  LocalIndex,
  BucketIndex,
  privateDesk: () => new PrivateDesk(all as unknown as WasmPrivate),
  address: () =>
    hasRelaxedSimd()
      ? new URL('../../wasm/cpu-relaxed/dpr_wasm_bg.wasm', import.meta.url)
      : new URL('../../wasm/cpu/dpr_wasm_bg.wasm', import.meta.url),
};
