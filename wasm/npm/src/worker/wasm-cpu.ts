import * as script from '../../wasm/cpu/dpr_wasm.js';
import { PrivateDesk } from './private/desk.js';
import type { WasmPrivate } from './private/wasm-private.js';
import type { WasmModule } from './wasm-module.js';

/** The module's own script. */
type Script = typeof script;

/** The module of a script, which has no memory yet. */
export function cpuModule(all: Script): WasmModule {
  const { default: init, BucketIndex, CrossEncoder, EncoderBuilder, LocalIndex, QuestionEncoder, Reader } = all;
  return {
    init,
    EncoderBuilder,
    QuestionEncoder,
    Reader,
    CrossEncoder,
    LocalIndex,
    BucketIndex,
    privateDesk: () => new PrivateDesk(all as unknown as WasmPrivate),
    address: () => new URL('../../wasm/cpu/dpr_wasm_bg.wasm', import.meta.url),
    relaxed: () => new URL('../../wasm/relaxed/dpr_wasm_bg.wasm', import.meta.url),
  };
}

/** The SIMD module. Literal paths: bundlers have to see them. */
export const cpu: WasmModule = cpuModule(script);
