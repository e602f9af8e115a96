import { DownloadError } from '../errors/download-error.js';
import type { ModelManifest } from '../types/manifest.js';
import { jsonAnswer } from '../wire/json-answer.js';
import type { Transport } from '../wire/transport.js';
import { within } from '../wire/within.js';

/** What reads manifests and what recalls them: scripts of their own in a page, and part of the one of a service worker. */
export interface ManifestParts {
  reader(): Promise<Pick<typeof import('./read-manifest.js'), 'parseManifest' | 'readManifest'>>;
  /** The manifest that this address had the last time, not checked. Never rejects. */
  recall(address: string): Promise<unknown>;
}

/**
 * Downloads and checks a manifest. When no answer comes at all, it is the one that this address had the last time: its
 * files are in the cache.
 */
export async function fetchManifest(
  url: string,
  requests: Transport,
  signal: AbortSignal | undefined,
  { reader, recall }: ManifestParts,
): Promise<ModelManifest> {
  const { stallTimeout } = requests;
  const limit = {
    milliseconds: stallTimeout,
    error: () => new DownloadError(url, 0, `no answer came within ${stallTimeout / 1000} s`, {}, 'timeout'),
  };
  const ask = async (signal: AbortSignal) => {
    const reading = reader();
    reading.catch(() => undefined);
    const [response, value] = await jsonAnswer(requests.send(url, { signal }), (cause) => new DownloadError(url, 0, 'no answer came', { cause }));
    return (await reading).readManifest(url, response, value);
  };
  try {
    return await within([signal], ({ signal }) => requests.retrying(signal, () => ask(signal)), limit);
  } catch (error) {
    signal?.throwIfAborted();
    const known = error instanceof DownloadError && error.status === 0 ? await recall(url) : undefined;
    if (!known) throw error;
    return (await reader()).parseManifest(known, url);
  }
}
