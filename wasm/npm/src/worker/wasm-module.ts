/** The question encoder that both WebAssembly modules export. */
export interface WasmQuestionEncoder {
  /** `[dim]` numbers. */
  encode(text: string): Promise<Float32Array>;
  readonly dim: number;
  readonly maxTokens: number;
  readonly device: string;
  free(): void;
}

/** What `wasm-bindgen --target web` makes of the crate `dpr-wasm`, as an entry of the worker imports it. */
export interface WasmModule {
  init(input: { module_or_path: Response }): Promise<unknown>;
  QuestionEncoder: {
    load(config: Uint8Array, tokenizer: Uint8Array, weights: Uint8Array): Promise<WasmQuestionEncoder>;
  };
  /** Where the module's code is, seen from the worker's script, if the page does not say. */
  address(): URL;
}

/** The module is not there, or is not the module. */
export class ModuleError extends Error {
  readonly fix: string;

  constructor(message: string, fix?: string) {
    super(message);
    this.fix =
      fix ??
      'Check that this address answers with the file of that name in the folder `wasm` of dpr-web; ' +
        'if the file is elsewhere, say where with the option `wasmUrl`.';
  }
}

/**
 * Fetches and compiles a module from `address`, or from where the worker's script expects it.
 *
 * @param onAnswer - called when the answer begins
 */
export async function startModule(module: WasmModule, address: string | undefined, onAnswer: () => void): Promise<void> {
  const from = address ?? module.address().href;
  let response: Response;
  try {
    // Not the module's own fetch: that would send a referrer.
    response = await fetch(from, { referrerPolicy: 'no-referrer' });
  } catch (error) {
    throw new ModuleError(`${from} could not be fetched: ${(error as Error).message}`);
  }
  if (!response.ok) throw new ModuleError(`${from} could not be fetched: the server answered ${response.status}`);
  onAnswer();
  try {
    await module.init({ module_or_path: response });
  } catch (error) {
    // A trap is the module's own failure, wherever it came from.
    if (error instanceof WebAssembly.RuntimeError) throw error;
    throw new ModuleError(`${from} could not be started: ${(error as Error).message}`);
  }
}
