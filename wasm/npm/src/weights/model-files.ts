import { ManifestError } from '../errors/manifest-error.js';
import type { Dtype } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import type { ProgressListener } from '../types/progress.js';
import type { Transport } from '../wire/transport.js';
import { within } from '../wire/within.js';
import { fetchFile } from './fetch-file.js';
import { openFileCache } from './file-cache.js';
import { requireSecureContext } from './sha256.js';

/** What the encoder module is made from. */
export interface ModelFiles {
  config: Uint8Array<ArrayBuffer>;
  /** `tokenizer.json`, or its binary form. */
  tokenizer: Uint8Array<ArrayBuffer>;
  weights: Uint8Array<ArrayBuffer>;
}

/** Config, tokenizer and weights, from the cache or the network, each checked. */
export async function fetchModelFiles(
  manifest: Pick<ModelManifest, 'name' | 'encoder' | 'weights'>,
  dtype: Dtype,
  onProgress: ProgressListener,
  requests: Transport,
  signal?: AbortSignal,
): Promise<ModelFiles> {
  requireSecureContext();
  const weights = manifest.weights[dtype];
  if (!weights) throw new ManifestError(`the model ${manifest.name} has no ${dtype} weights`);
  const { config, tokenizer, vocabulary } = manifest.encoder;
  const cache = await openFileCache();

  // One failure stops the other downloads.
  return within([signal], async (stop) => {
    const files = await Promise.all(
      [config, vocabulary ?? tokenizer, weights].map((file) =>
        fetchFile(file, cache, onProgress, stop.signal, requests),
      ),
    );
    return { config: files[0]!, tokenizer: files[1]!, weights: files[2]! };
  });
}
