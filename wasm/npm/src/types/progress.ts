import type { Device, Dtype } from './device.js';

/**
 * What happens while a model loads, and when its device is lost later.
 * `status` tells the kinds apart.
 *
 * @example
 * onProgress: (event) => {
 *   if (event.status === 'progress') bar.value = event.loaded / event.total;
 *   if (event.status === 'ready') bar.hidden = true;
 * }
 */
export type Progress =
  /** A file is needed; `total` bytes. */
  | { status: 'initiate'; file: string; total: number }
  /** The file is not in the cache and its download starts; `resumedAt` > 0 after a broken connection. */
  | { status: 'download'; file: string; total: number; resumedAt: number }
  /** `loaded` of `total` bytes of the file are here. */
  | { status: 'progress'; file: string; loaded: number; total: number }
  /** The file is here and its SHA-256 is right. */
  | { status: 'done'; file: string; total: number; source: 'cache' | 'network' }
  /**
   * A worker has its module; `fetched` are the addresses that it fetched itself, its own script included. The page's
   * list of resources does not have them. `bytes` are those that came over the network for each, headers included: 0
   * where the browser does not tell, or had the file in its cache.
   */
  | { status: 'worker'; device: Device; fetched: string[]; bytes: number[] }
  /** `device: 'auto'` has timed a device, after `ready`: median milliseconds for one question. */
  | { status: 'measure'; device: Device; milliseconds: number }
  /** A device was asked for, or in use, and another takes over. */
  | { status: 'fallback'; from: Device; to: Device; reason: string }
  /**
   * Questions can be encoded; with `change`: they are encoded on another device from now on, as the event `devicechange`
   * of a `SearchClient` tells as well.
   */
  | { status: 'ready'; device: Device; dtype: Dtype; change?: DeviceChange };

/** Another device encodes. */
export interface DeviceChange {
  from: Device;
  to: Device;
  /** A clause without a full stop, as `WebGPU is faster` or `the GPU device was lost (destroyed)`. */
  reason: string;
}

/** Receives {@link Progress} events. What it throws goes to `reportError` and stops nothing. */
export type ProgressListener = (event: Progress) => void;
