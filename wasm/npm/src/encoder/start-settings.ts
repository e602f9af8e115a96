import type { DeviceChoice, DtypeChoice } from '../types/device.js';
import type { ProgressListener } from '../types/progress.js';
import type { Transport } from '../wire/transport.js';
import type { WorkerSource } from '../worker/encoder-worker.js';
import type { OrderSettings } from '../worker/file-order.js';

/** How to start; the options of the public API with their defaults filled in. */
export interface StartSettings {
  device: DeviceChoice;
  dtype: DtypeChoice;
  /** Whether `auto` may time WebGPU. */
  measures: boolean;
  onProgress: ProgressListener;
  workers: WorkerSource;
  requests: Transport;
  /** How a worker makes the same requests; `undefined` where only the page can, or the browser keeps no files. */
  order: OrderSettings | undefined;
  /** Ends the start. */
  signal: AbortSignal | undefined;
  /** Ends with the encoder. */
  life: AbortSignal;
}
