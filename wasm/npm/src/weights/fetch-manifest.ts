import { DownloadError } from '../errors/download-error.js';
import { DprWebError } from '../errors/dpr-web-error.js';
import { ManifestError } from '../errors/manifest-error.js';
import type { ModelManifest } from '../types/manifest.js';
import { parseManifest } from '../wire/parse-manifest.js';
import { refused } from '../wire/refused.js';
import type { Transport } from '../wire/transport.js';
import { within } from '../wire/within.js';
import { recallManifest } from './manifest-note.js';

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
