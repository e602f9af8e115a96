import type { Device } from '../types/device.js';
import type { ModelFiles } from '../weights/model-files.js';

/** Version of these messages. A page may have built its worker from another release of the package. */
export const PROTOCOL = 1;
/** The id of every hello: a worker says one unasked. */
export const HELLO = 0;

/** Page to worker. `id` comes back in the answer. */
export type Command =
  /** Are you there? Answered by `hello` at once, also in the middle of other work. */
  | { type: 'hello'; id: typeof HELLO }
  /**
   * First work: fetch and compile the module for this device, from `wasm`, else from where the worker's
   * own script expects it. Answered by `done`.
   */
  | { type: 'init'; id: number; device: Device; wasm: string | undefined }
  /** Build the encoder and warm it up. Answered by `loaded`. */
  | { type: 'load'; id: number; files: ModelFiles }
  /** Answered by `vector`. Questions are encoded one after another, in the order they came. */
  | { type: 'encode'; id: number; text: string }
  /** Median milliseconds for one fixed question. Answered by `measured`. */
  | { type: 'measure'; id: number };

/** Worker to page. */
export type Reply =
  /** Sent when the script has run, and when asked. `address` is the script's own. */
  | { type: 'hello'; id: typeof HELLO; protocol: number; address: string }
  /** A part of the work under way is done. */
  | { type: 'alive' }
  | { type: 'done'; id: number }
  | { type: 'loaded'; id: number; dim: number; maxTokens: number; device: string }
  | { type: 'vector'; id: number; vector: Float32Array<ArrayBuffer> }
  | { type: 'measured'; id: number; milliseconds: number }
  /** This one command failed; the encoder goes on. */
  | { type: 'failed'; id: number; message: string; fix: string | undefined }
  /** The encoder is gone: a lost GPU device, or a panic in the module. No more answers come. */
  | { type: 'fatal'; message: string };
