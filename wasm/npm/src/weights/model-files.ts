import { DownloadError } from '../errors/download-error.js';
import { ManifestError } from '../errors/manifest-error.js';
import type { Dtype, DtypeChoice, DeviceChoice } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import type { ProgressListener } from '../types/progress.js';
import { parseManifest } from '../wire/parse-manifest.js';
import { Silence } from '../wire/silence.js';
import type { Transport } from '../wire/transport.js';
import { fetchFile } from './fetch-file.js';
import { openFileCache } from './file-cache.js';
import { requireSecureContext } from './sha256.js';

/** A manifest is a few hundred bytes: a server that takes longer, in milliseconds, does not answer. */
const MANIFEST_LIMIT = 30_000;

/** What the encoder module is made from. */
export interface ModelFiles {
  config: Uint8Array<ArrayBuffer>;
  tokenizer: Uint8Array<ArrayBuffer>;
  weights: Uint8Array<ArrayBuffer>;
}

/** Downloads and checks a manifest. */
export async function fetchManifest(url: string, requests: Transport, given: AbortSignal | undefined): Promise<ModelManifest> {
  const tooLate = new AbortController();
  const silence = new Silence();
  silence.wait(MANIFEST_LIMIT, () => tooLate.abort());
  const signal = given ? AbortSignal.any([given, tooLate.signal]) : tooLate.signal;
  let response: Response;
  let value: unknown;
  try {
    response = await requests.send(url, { signal });
    value = response.ok ? await response.json() : undefined;
  } catch (error) {
    given?.throwIfAborted();
    if (error instanceof SyntaxError) throw new ManifestError(`${url} did not answer with JSON`);
    const reason = tooLate.signal.aborted ? `no answer came within ${MANIFEST_LIMIT / 1000} s` : 'no answer came';
    throw new DownloadError(url, 0, reason, { cause: error });
  } finally {
    silence.stop();
  }
  if (!response.ok) throw new DownloadError(url, response.status, `the server answered ${response.status}`);
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
  const stop = new AbortController();
  const both = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
  try {
    const [config, tokenizer, bytes] = await Promise.all(
      [manifest.encoder.config, manifest.encoder.tokenizer, weights].map((file) => fetchFile(file, cache, onProgress, both, requests)),
    );
    return { config: config!, tokenizer: tokenizer!, weights: bytes! };
  } catch (error) {
    stop.abort(error);
    throw error;
  }
}
