import type { Dtype } from '../types/device.js';
import type { ModelManifest, PairModel } from '../types/manifest.js';
import type { PairFiles } from '../types/pair-files.js';
import type { ProgressListener } from '../types/progress.js';
import { fetchFile } from '../weights/fetch-file.js';
import { openFileCache } from '../weights/file-cache.js';
import { requireSecureContext } from '../weights/sha256.js';
import type { Transport } from '../wire/transport.js';
import { within } from '../wire/within.js';
import { sharedTensors } from './shared-tensors.js';

/** A model's files, from the cache or the network, each checked, and what it shares with the question encoder. */
export async function fetchPairFiles(
  pair: PairModel,
  dtype: Dtype,
  encoder: ModelManifest,
  onProgress: ProgressListener,
  requests: Transport,
  signal: AbortSignal,
): Promise<PairFiles> {
  requireSecureContext();
  const own = pair.weights[dtype]!;
  const shares = own.shares ?? [];
  const cache = await openFileCache();
  // One failure stops the other downloads.
  return within([signal], async (stop) => {
    const [config, tokenizer, weights, others] = await Promise.all(
      [pair.config, pair.tokenizer, own, ...(shares.length > 0 ? [encoder.weights[dtype]!] : [])].map((file) =>
        fetchFile(file, cache, onProgress, stop.signal, requests),
      ),
    );
    const shared = others && sharedTensors(others, shares, `the ${dtype} weights of ${encoder.name}`);
    return { config: config!, tokenizer: tokenizer!, weights: weights!, shared };
  });
}
