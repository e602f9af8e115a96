import type { Dtype } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import type { NetworkOptions } from '../types/network.js';

/** The files of a model that a worker downloads by itself, and how. */
export interface FileOrder {
  manifest: Pick<ModelManifest, 'name' | 'encoder' | 'weights'>;
  dtype: Dtype;
  /** What of these options can be sent to a worker. */
  network: Pick<NetworkOptions, 'headers' | 'credentials' | 'retry' | 'stallTimeout'>;
  /** Whoever the headers are meant for. */
  server: string | undefined;
}

/** What a worker's downloads need of the page's options. */
export type OrderSettings = Omit<FileOrder, 'manifest' | 'dtype'>;

/**
 * How a worker makes the requests that these options ask for; `undefined` where only the page can: with a `fetch` or
 * functions of its own.
 */
export function orderSettings(options: NetworkOptions, server: string | undefined): OrderSettings | undefined {
  const { fetch, headers, credentials, retry, stallTimeout } = options;
  if (fetch || typeof headers === 'function' || (typeof retry === 'object' && retry.delay)) return undefined;
  return { network: { headers: { ...headers }, credentials, retry, stallTimeout }, server };
}
