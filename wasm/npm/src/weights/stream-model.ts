import { ManifestError } from '../errors/manifest-error.js';
import type { Dtype } from '../types/device.js';
import type { ModelFile, ModelManifest } from '../types/manifest.js';
import type { ProgressListener } from '../types/progress.js';
import type { Transport } from '../wire/transport.js';
import { within } from '../wire/within.js';
import { chunksOf } from './chunks.js';
import { fetchFile } from './fetch-file.js';
import { fetchModelFiles, type ModelFiles } from './model-files.js';
import { openStreamCache } from './stream-cache.js';
import { streamFile, type StreamedFile } from './stream-file.js';

/** What an encoder is made from while its weights arrive. */
export type StreamedFiles = Omit<ModelFiles, 'weights'> & { weights: StreamedFile };

/**
 * Config and tokenizer, each checked, and the weights as soon as their first bytes are there. Where the manifest has no
 * sums of parts, or tabs could not take the file from the cache, the weights are fetched as a whole.
 */
export async function streamModelFiles(
  manifest: Pick<ModelManifest, 'name' | 'encoder' | 'weights'>,
  dtype: Dtype,
  onProgress: ProgressListener,
  requests: Transport,
  signal?: AbortSignal,
): Promise<ModelFiles | StreamedFiles> {
  const file = manifest.weights[dtype];
  if (!file) throw new ManifestError(`the model ${manifest.name} has no ${dtype} weights`);
  const chunks = chunksOf(file);
  const cache = await openStreamCache();
  const locks = (globalThis.navigator as Partial<Navigator> | undefined)?.locks;
  if (!chunks || !locks || !cache.keeps || !globalThis.crypto?.subtle) {
    return fetchModelFiles(manifest, dtype, onProgress, requests, signal);
  }
  const { config, tokenizer, vocabulary } = manifest.encoder;
  const weights = streamFile(file, chunks, cache, locks, onProgress, requests, signal);
  try {
    return await within([signal], async (stop) => {
      const fetched = (file: ModelFile) => fetchFile(file, cache, onProgress, stop.signal, requests);
      const small = [config, vocabulary ?? tokenizer].map(fetched);
      const [first, second] = await Promise.all([...small, weights.begun]);
      return { config: first!, tokenizer: second!, weights };
    });
  } catch (error) {
    void weights.judge(false);
    throw error;
  }
}
