import { IntegrityError } from '../errors/integrity-error.js';
import type { StreamedFiles } from '../weights/stream-model.js';
import type { WasmEncoderBuilder, WasmModule, WasmQuestionEncoder } from './wasm-module.js';

/** Signs of life while weights arrive, at most this often, in milliseconds. */
const ALIVE_INTERVAL = 1000;

/**
 * Builds an encoder while its weights arrive.
 *
 * @throws {@link IntegrityError} when the whole is not the file that the manifest names; nothing is kept of it
 */
export async function streamEncoder(
  module: WasmModule,
  { config, tokenizer, weights }: StreamedFiles,
  alive: () => void,
): Promise<WasmQuestionEncoder> {
  const reader = weights.parts.getReader();
  let builder: WasmEncoderBuilder | undefined;
  let last = Date.now();
  try {
    builder = await module.EncoderBuilder.begin(config, tokenizer, weights.bytes);
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      builder.push(next.value);
      if (Date.now() - last < ALIVE_INTERVAL) continue;
      last = Date.now();
      alive();
    }
    const got = builder.sha256();
    if (got !== weights.sha256) throw new IntegrityError(weights.name, weights.sha256, got);
    const whole = builder;
    // It is gone with this, whatever becomes of it.
    builder = undefined;
    return whole.finish();
  } catch (error) {
    await reader.cancel(error).catch(() => undefined);
    // A module that has trapped is not called again.
    if (!(error instanceof WebAssembly.RuntimeError)) builder?.free();
    void weights.judge(false);
    throw error;
  }
}
