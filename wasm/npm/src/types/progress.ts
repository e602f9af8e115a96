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
  /** `device: 'auto'` has timed a device: median milliseconds for one question. */
  | { status: 'measure'; device: Device; milliseconds: number }
  /** A device was asked for, or in use, and another takes over. */
  | { status: 'fallback'; from: Device; to: Device; reason: string }
  /** Questions can be encoded. */
  | { status: 'ready'; device: Device; dtype: Dtype };

/** Receives {@link Progress} events; an exception from it is not caught. */
export type ProgressListener = (event: Progress) => void;
