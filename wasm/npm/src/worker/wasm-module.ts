import { ModuleError } from './module-error.js';
import type { PrivateDesk } from './private/desk.js';
import { hasRelaxedSimd } from './relaxed-simd.js';

/** The question encoder that the WebAssembly modules export. */
export interface WasmQuestionEncoder {
  /** `[dim]` numbers. */
  encode(text: string): Promise<Float32Array>;
  /** Tokens of the text, special ones included, at most `maxTokens`. */
  tokenCount(text: string): number;
  /** The ids of these tokens. */
  tokens(text: string): Uint32Array;
  readonly dim: number;
  readonly maxTokens: number;
  readonly device: string;
  free(): void;
}

/** A question encoder whose weights arrive part by part. */
export interface WasmEncoderBuilder {
  /** Takes the next bytes of the weights. */
  push(bytes: Uint8Array): void;
  /** SHA-256 of the bytes so far, 64 lower-case hex digits. */
  sha256(): string;
  /** The encoder; the builder is gone. */
  finish(): WasmQuestionEncoder;
  free(): void;
}

/** What the WebAssembly modules export for pairs of a question and a passage. */
export interface WasmPairModel {
  readonly maxTokens: number;
  readonly device: string;
  free(): void;
}

/** Marks answers. */
export interface WasmReader extends WasmPairModel {
  /**
   * `[passages, 1 + 3 * spans]` numbers: the logit by which the passage is chosen, and of each span start, end (in the
   * text, in units of UTF-16) and score. NaN stands for what there is not. Without spans it takes less time.
   */
  read(question: string, titles: string[], texts: string[], spans: number, maxAnswerTokens: number): Promise<Float64Array>;
}

/** Scores passages. */
export interface WasmCrossEncoder extends WasmPairModel {
  /** `[passages]` logits. */
  score(question: string, titles: string[], texts: string[]): Promise<Float32Array>;
}

/** An index that is searched in the worker. */
export interface WasmLocalIndex {
  /** Adds the passages of a file of codes, which has so many of them. */
  add(codes: Uint8Array, passages: number): void;
  /** `[k, 2]` numbers: row and score of the best passages. */
  search(question: Float32Array, k: number): Float64Array;
  free(): void;
}

/** The centroids of an index in the worker, and the buckets of it that were fetched. */
export interface WasmBucketIndex {
  readonly buckets: number;
  /** The numbers of the buckets that are fetched for a question, ascending. */
  choose(question: Float32Array, probes: number, decoys: number, key: Uint8Array): Uint32Array;
  /** Adds the codes of a bucket, which has so many passages. */
  add(bucket: number, codes: Uint8Array, passages: number): void;
  /** `[k, 3]` numbers: bucket, place in it and score of the best passages of these buckets. */
  search(question: Float32Array, buckets: Uint32Array, k: number): Float64Array;
  free(): void;
}

/** Loads a model of pairs; `shared` is a file of the tensors that `weights` leaves out. */
interface PairLoader<T> {
  load(
    config: Uint8Array,
    tokenizer: Uint8Array,
    weights: Uint8Array,
    maxTokens: number | undefined,
    shared: Uint8Array | undefined,
  ): Promise<T>;
}

/** What `wasm-bindgen --target web` makes of the crate `dpr-wasm`, as an entry of the worker imports it. */
export interface WasmModule {
  init(input: { module_or_path: Response }): Promise<unknown>;
  QuestionEncoder: {
    load(config: Uint8Array, tokenizer: Uint8Array, weights: Uint8Array): Promise<WasmQuestionEncoder>;
  };
  EncoderBuilder: {
    /** `bytes`: length of the weights. */
    begin(config: Uint8Array, tokenizer: Uint8Array, bytes: number): Promise<WasmEncoderBuilder>;
  };
  Reader: PairLoader<WasmReader>;
  CrossEncoder: PairLoader<WasmCrossEncoder>;
  /** Makes what does private search; the CPU module has it. */
  privateDesk?(): PrivateDesk;
  /** In the module for the CPU. */
  LocalIndex?: new (projection: Uint8Array) => WasmLocalIndex;
  /** In the module for the CPU. */
  BucketIndex?: new (projection: Uint8Array, centroids: Uint8Array) => WasmBucketIndex;
  /** Where the module's code is, seen from the worker's script, if the page does not say. */
  address(): URL;
  /** Where the code for engines with relaxed SIMD is, which runs under the same script. */
  relaxed?(): URL;
}

/**
 * What browsers say when a policy forbids WebAssembly: Chromium and Safari name the source that is missing, Firefox
 * says CSP.
 */
const BLOCKED = /unsafe-eval|\bCSP\b|Content.Security.Policy/i;

/** Error code for a policy that forbids WebAssembly. */
const BLOCKED_CODE = 'wasm_blocked_by_csp';

/** Tells of parts at most this often, in milliseconds. */
const PART_INTERVAL = 1000;

const ALLOW =
  "Allow WebAssembly in the Content-Security-Policy of the page and of the worker's script: " +
  "script-src 'self' 'wasm-unsafe-eval'.";

/** Addresses that the page gives: of a module's code, and of its code for engines with relaxed SIMD. */
export interface ModuleAddresses {
  wasm?: string | undefined;
  relaxed?: string | undefined;
}

/** The addresses that a module's code is fetched from, in turn: the page's, else those that the worker's script expects. */
export function urlsOf(module: WasmModule, { wasm, relaxed }: ModuleAddresses): [string, ...string[]] {
  const plain = wasm ?? module.address().href;
  // A page that gives the address of the plain module may not host the other.
  const better = module.relaxed && (relaxed ?? (wasm === undefined ? module.relaxed().href : undefined));
  return better !== undefined && hasRelaxedSimd() ? [better, plain] : [plain];
}

/**
 * Fetches and compiles a module.
 *
 * @param onPart - called when the answer begins, and with every part of it that arrives
 * @param request - `fetch`, or what reads files as well
 * @returns the address that it came from
 */
export async function startModule(
  module: WasmModule,
  from: ModuleAddresses,
  onPart: () => void,
  request: typeof fetch = fetch,
): Promise<string> {
  const [first, ...others] = urlsOf(module, from);
  try {
    return await startFrom(module, first, onPart, request);
  } catch (error) {
    if (!(error instanceof ModuleError) || error.code === BLOCKED_CODE || !others[0]) throw error;
    // The host may lack the file, or the engine may have a part of relaxed SIMD only.
    return startFrom(module, others[0], onPart, request);
  }
}

async function startFrom(
  module: WasmModule,
  from: string,
  onPart: () => void,
  request: typeof fetch,
): Promise<string> {
  let response: Response;
  try {
    // Not the module's own fetch: that would send a referrer.
    response = await request(from, { referrerPolicy: 'no-referrer' });
  } catch (error) {
    throw new ModuleError(`${from} could not be fetched: ${(error as Error).message}`);
  }
  if (!response.ok) throw new ModuleError(`${from} could not be fetched: the server answered ${response.status}`);
  onPart();
  void watch(response.clone(), onPart);
  try {
    await module.init({ module_or_path: response });
    return from;
  } catch (error) {
    // A trap is the module's own failure, wherever it came from.
    if (error instanceof WebAssembly.RuntimeError) throw error;
    const { message } = error as Error;
    const blocked = BLOCKED.test(message);
    throw new ModuleError(
      `${from} could not be started: ${message}`,
      blocked
        ? ALLOW
        : undefined,
      blocked ? BLOCKED_CODE : undefined,
    );
  }
}

/** Reads an answer beside the browser, which compiles it while it arrives and does not tell how far it is. */
async function watch(copy: Response, onPart: () => void): Promise<void> {
  let last = Date.now();
  try {
    const reader = copy.body?.getReader();
    while (reader && !(await reader.read()).done) {
      if (Date.now() - last < PART_INTERVAL) continue;
      last = Date.now();
      onPart();
    }
  } catch {
    // The browser hears of it too.
  }
}
