import { loaded } from '../client/loaded.js';
import { DownloadError } from '../errors/download-error.js';
import type { ModelManifest } from '../types/manifest.js';
import { jsonAnswer } from '../wire/json-answer.js';
import type { Transport } from '../wire/transport.js';
import { within } from '../wire/within.js';

const reader = (): Promise<typeof import('./read-manifest.js')> => loaded(import('./read-manifest.js'));

/** The manifest with absolute file addresses, as `parseManifest` returns it. */
export async function checkManifest(value: unknown, base: string | URL | undefined): Promise<ModelManifest> {
  return (await reader()).parseManifest(value, base);
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
    const known = error instanceof DownloadError && error.status === 0 ? await recalled(url) : undefined;
    if (!known) throw error;
    return checkManifest(known, url);
  }
}

async function askForManifest(url: string, requests: Transport, signal: AbortSignal): Promise<ModelManifest> {
  const reading = reader();
  reading.catch(() => undefined);
  const [response, value] = await jsonAnswer(requests.send(url, { signal }), (cause) => new DownloadError(url, 0, 'no answer came', { cause }));
  return (await reading).readManifest(url, response, value);
}

/** The manifest of an earlier visit. Where there is a note of it, its script is kept too: the same one writes it. */
async function recalled(url: string): Promise<unknown> {
  const part = await import('./manifest-note.js').catch(() => undefined);
  return part?.recallManifest(url);
}
