import type { DprWebErrorCode } from '../errors/dpr-web-error.js';
import type { Device } from '../types/device.js';
import type { PairFiles, PairKind } from '../types/pair-files.js';
import type { Progress } from '../types/progress.js';
import type { ModelFiles } from '../weights/model-files.js';
import type { FileOrder } from './file-order.js';
import type { PrivateAnswer, PrivateCall } from './private/calls.js';
import type { SentError } from './sent-error.js';

/** Version of these messages. A page may have built its worker from another release of the package. */
export const PROTOCOL = 6;
/** The id of every hello: a worker says one unasked. */
export const HELLO = 0;

/** Page to worker. `id` comes back in the answer. */
export type Command =
  /** Are you there? Answered by `hello` at once, also in the middle of other work. */
  | { type: 'hello'; id: typeof HELLO }
  /**
   * First work: fetch and compile the module for this device, from `wasm`, else from where the worker's
   * own script expects it; for the CPU from `relaxed`, if that is said, where the engine has relaxed SIMD. `order`:
   * download these files meanwhile, for `load`. Answered by `done`.
   */
  | { type: 'init'; id: number; device: Device; wasm: string | undefined; relaxed?: string | undefined; order?: FileOrder | undefined }
  /** To a shared worker: is this model there already? Answered by `loaded`, else by `needed`. */
  | { type: 'find'; id: number; model: string }
  /**
   * Build the encoder of this model and warm it up, from these files or those of the order. Answered by `loaded`, or by
   * `needed` where the worker may not download them.
   */
  | { type: 'load'; id: number; model: string; files?: ModelFiles | undefined }
  /** Answered by `vector`. Questions are encoded one after another, in the order they came. */
  | { type: 'encode'; id: number; model: string; text: string }
  /** Answered by `counted`. */
  | { type: 'count'; id: number; model: string; text: string }
  /** Answered by `tokens`. */
  | { type: 'tokens'; id: number; model: string; text: string }
  /** Of private search. To the CPU module, in a worker that nobody shares. Answered by `private`. */
  | { type: 'private'; id: number; call: PrivateCall }
  /** Build this model of pairs and warm it up. Answered by `loaded`. */
  | { type: 'load_pair'; id: number; model: string; kind: PairKind; files: PairFiles; maxTokens: number }
  /** Of a reader: find the best span of each passage. Answered by `numbers`, `[passages, 4]`. */
  | { type: 'read'; id: number; model: string; question: string; titles: string[]; texts: string[]; maxAnswerTokens: number }
  /** Score passages, by a cross-encoder or by a reader that looks for no spans. Answered by `numbers`, `[passages]`. */
  | { type: 'score'; id: number; model: string; question: string; titles: string[]; texts: string[] }
  /** Begin a local index, in the place of the one before, with the bytes of its projection. Answered by `done`. */
  | { type: 'local_open'; id: number; projection: Uint8Array<ArrayBuffer> }
  /** Add the codes of so many passages to it. Answered by `done`. */
  | { type: 'local_add'; id: number; codes: Uint8Array<ArrayBuffer>; passages: number }
  /** Rank its passages. Answered by `numbers`, row and score of each, `[k, 2]`. */
  | { type: 'local_rank'; id: number; vector: Float32Array<ArrayBuffer>; k: number }
  /** Begin an index in buckets, in the place of the one before. Answered by `numbers`: how many buckets it has. */
  | { type: 'bucket_open'; id: number; projection: Uint8Array<ArrayBuffer>; centroids: Uint8Array<ArrayBuffer> }
  /** Choose the buckets that are fetched for a question. Answered by `numbers`, ascending. */
  | { type: 'bucket_choose'; id: number; vector: Float32Array<ArrayBuffer>; probes: number; decoys: number; key: Uint8Array<ArrayBuffer> }
  /** Add the codes of a bucket, of so many passages. Answered by `done`. */
  | { type: 'bucket_add'; id: number; bucket: number; codes: Uint8Array<ArrayBuffer>; passages: number }
  /** Rank the passages of these buckets. Answered by `numbers`, bucket, place and score of each, `[k, 3]`. */
  | { type: 'bucket_rank'; id: number; vector: Float32Array<ArrayBuffer>; buckets: Uint32Array<ArrayBuffer>; k: number }
  /** Milliseconds for one fixed question. Answered by `measured`. */
  | { type: 'measure'; id: number; model: string };

/** What takes its turn, unlike a hello. */
export type Work = Exclude<Command, { type: 'hello' }>;

/** Page to shared worker, beside the commands. */
export type Presence =
  /** The page is there for as long as it holds this Web Lock. */
  | { type: 'join'; lock: string }
  /** The page wants nothing more. */
  | { type: 'leave' };

/** Worker to page. */
export type Reply =
  /** Sent when the script has run, and when asked. `address` is the script's own. */
  | { type: 'hello'; id: typeof HELLO; protocol: number; address: string }
  /** A part of the work under way is done. */
  | { type: 'alive' }
  /** How far the downloads of an order are. */
  | { type: 'progress'; event: Progress }
  /** `fetched`: the addresses that the worker has fetched so far, with `bytes` for each. Older releases do not say. */
  | { type: 'done'; id: number; fetched?: string[]; bytes?: number[] }
  /** `dim`: of a model of pairs, 0. `fetched` and `bytes`: the files of an order. */
  | { type: 'loaded'; id: number; dim: number; maxTokens: number; device: string; fetched?: string[]; bytes?: number[] }
  /** What a model of pairs makes of passages. */
  | { type: 'numbers'; id: number; numbers: Float64Array<ArrayBuffer> }
  /** The model is not there: send its files. */
  | { type: 'needed'; id: number }
  | { type: 'vector'; id: number; vector: Float32Array<ArrayBuffer> }
  /** `tokens`: at most as many as the encoder takes, special tokens included. */
  | { type: 'counted'; id: number; tokens: number }
  /** The ids of the tokens that the encoder sees. */
  | { type: 'tokens'; id: number; tokens: Uint32Array<ArrayBuffer> }
  | { type: 'private'; id: number; answer: PrivateAnswer }
  | { type: 'measured'; id: number; milliseconds: number }
  /** This one command failed; the encoder goes on. `error`: of a download. */
  | {
      type: 'failed';
      id: number;
      message: string;
      fix: string | undefined;
      code?: DprWebErrorCode | undefined;
      error?: SentError | undefined;
    }
  /**
   * The encoder is gone: a lost GPU device, or a panic in the module. No more answers come. `isBystander`: it was at
   * the command of another page.
   */
  | { type: 'fatal'; message: string; isBystander?: boolean };

/** A worker's first word. */
export function hello(): Reply {
  return { type: 'hello', id: HELLO, protocol: PROTOCOL, address: globalThis.location?.href ?? '' };
}
