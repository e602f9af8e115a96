import type { Device } from '../types/device.js';
import type { ModelFiles } from '../weights/model-files.js';

/** Page to worker. `id` comes back in the answer. */
export type Command =
  /** First message: fetch and compile the module for this device. Answered by `done`. */
  | { type: 'init'; id: number; device: Device }
  /** Build the encoder and warm it up. Answered by `loaded`. */
  | { type: 'load'; id: number; files: ModelFiles }
  /** Answered by `vector`. Questions are encoded one after another, in the order they came. */
  | { type: 'encode'; id: number; text: string }
  /** Median milliseconds for one fixed question. Answered by `measured`. */
  | { type: 'measure'; id: number };

/** Worker to page. */
export type Reply =
  | { type: 'done'; id: number }
  | { type: 'loaded'; id: number; dim: number; maxTokens: number; device: string }
  | { type: 'vector'; id: number; vector: Float32Array<ArrayBuffer> }
  | { type: 'measured'; id: number; milliseconds: number }
  /** This one command failed; the encoder goes on. */
  | { type: 'failed'; id: number; message: string }
  /** The encoder is gone: a lost GPU device, or a panic in the module. No more answers come. */
  | { type: 'fatal'; message: string };
