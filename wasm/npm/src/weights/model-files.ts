import { DownloadError } from '../errors/download-error.js';
import { DprWebError } from '../errors/dpr-web-error.js';
import { ManifestError } from '../errors/manifest-error.js';
import type { Dtype, DtypeChoice, DeviceChoice } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import type { ProgressListener } from '../types/progress.js';
import { parseManifest } from '../wire/parse-manifest.js';
import type { Transport } from '../wire/transport.js';
import { within } from '../wire/within.js';
import { refused } from './download.js';
import { fetchFile } from './fetch-file.js';
import { openFileCache } from './file-cache.js';
import { recallManifest } from './old-models.js';
import { requireSecureContext } from './sha256.js';

/** What the encoder module is made from. */
export interface ModelFiles {
  config: Uint8Array<ArrayBuffer>;
  tokenizer: Uint8Array<ArrayBuffer>;
  weights: Uint8Array<ArrayBuffer>;
}

/**
 * Downloads and checks a manifest. When no answer comes at all, it is the one that this address had the last time: its
 * files are in the cache.
 */
export async function fetchManifest(
  url: string,
  requests: Transport,
  signal: AbortSignal | undefined,
): Promise<ModelManifest> {
  const { stallTimeout } = requests;
  const limit = {
    milliseconds: stallTimeout,
    error: () => new DownloadError(url, 0, `no answer came within ${stallTimeout / 1000} s`, {}, 'timeout'),
  };
  try {
    const ask = ({ signal }: AbortController) => requests.retrying(signal, () => askForManifest(url, requests, signal));
    return await within([signal], ask, limit);
  } catch (error) {
    signal?.throwIfAborted();
    const known = error instanceof DownloadError && error.status === 0 ? await recallManifest(url) : undefined;
    if (!known) throw error;
    return parseManifest(known, url);
  }
}

async function askForManifest(url: string, requests: Transport, signal: AbortSignal): Promise<ModelManifest> {
  let response: Response;
  let value: unknown;
  try {
    response = await requests.send(url, { signal });
    if (!response.ok) throw refused(url, response);
    value = await response.json();
  } catch (error) {
    if (error instanceof DprWebError) throw error;
    if (error instanceof SyntaxError) throw new ManifestError(`${url} did not answer with JSON`);
    throw new DownloadError(url, 0, 'no answer came', { cause: error });
  }
  return parseManifest(value, response.url || url);
}

/**
 * The weights format to download.
 * @throws {@link ManifestError} when one was asked for that the model does not offer
 */
export function chooseDtype(choice: DtypeChoice, device: DeviceChoice, manifest: ModelManifest): Dtype {
  const offered = Object.keys(manifest.weights) as Dtype[];
  const order: Dtype[] = choice !== 'auto' ? [choice] : device === 'webgpu' ? ['f16', 'q8', 'f32'] : ['q8', 'f16', 'f32'];
  const found = order.find((dtype) => offered.includes(dtype));
  if (!found) {
    throw new ManifestError(
      `the model ${manifest.name} has no ${choice} weights, it offers ${offered.join(', ')}`,
      'Choose one of those, or `auto`.',
      'no_weights',
    );
  }
  return found;
}

/** Config, tokenizer and weights, from the cache or the network, each checked. */
export async function fetchModelFiles(
  manifest: ModelManifest,
  dtype: Dtype,
  onProgress: ProgressListener,
  requests: Transport,
  signal?: AbortSignal,
): Promise<ModelFiles> {
  requireSecureContext();
  const weights = manifest.weights[dtype];
  if (!weights) throw new ManifestError(`the model ${manifest.name} has no ${dtype} weights`);
  const cache = await openFileCache();

  // One failure stops the other downloads.
  return within([signal], async (stop) => {
    const [config, tokenizer, bytes] = await Promise.all(
      [manifest.encoder.config, manifest.encoder.tokenizer, weights].map((file) =>
        fetchFile(file, cache, onProgress, stop.signal, requests),
      ),
    );
    return { config: config!, tokenizer: tokenizer!, weights: bytes! };
  });
}
