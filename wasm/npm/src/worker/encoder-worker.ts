import type { Device, WasmBuild } from '../types/device.js';
import type { Command, Presence, Reply } from './protocol.js';

/** A worker of this page, or this page's place in a shared one. */
export interface EncoderWorker {
  /** Whether it may have the model already, of another client. */
  readonly isShared?: boolean;
  onmessage: ((event: MessageEvent<Reply>) => void) | null;
  onmessageerror: ((event: MessageEvent) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  postMessage(message: Command | Presence, transfer: Transferable[]): void;
  /** Ends the worker, or leaves it to the others. */
  terminate(): void;
}

/** Where workers come from. */
export interface WorkerSource {
  create(device: Device): EncoderWorker;
  /** Whether the scripts are the package's own. */
  isOwn: boolean;
  /** Address of the worker's script, where it is another than that of `spawn`. */
  script?(device: Device): string | undefined;
  /** Address of the module's code to hand in, or `undefined`: the worker knows. */
  wasm: (build: WasmBuild) => string | undefined;
  /** Longest wait for a worker's first word, in milliseconds. */
  startTimeout: number;
  /** Makes only dedicated workers from now on; returns whether those for this device were shared until now. */
  unshare?(device: Device): boolean;
}
