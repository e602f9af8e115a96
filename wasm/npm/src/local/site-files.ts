import { DownloadError } from '../errors/download-error.js';
import { DprWebError } from '../errors/dpr-web-error.js';
import { ModelMismatchError } from '../errors/model-mismatch-error.js';
import type { ModelFile, ModelManifest } from '../types/manifest.js';
import type { ProgressListener } from '../types/progress.js';
import { refused } from '../wire/refused.js';
import { fetchFile } from '../weights/fetch-file.js';
import { openFileCache, type FileCache } from '../weights/file-cache.js';
import { requireSecureContext, sha256Hex } from '../weights/sha256.js';
import { parseManifest } from '../wire/parse-manifest.js';
import type { Transport } from '../wire/transport.js';
import { within } from '../wire/within.js';
import { noteIndex, recallIndex } from './index-note.js';
import { notStatic, parseStatic, type StaticManifest } from './static-manifest.js';

/** Downloads at once: as many as browsers make to one host over HTTP/1.1. */
const AT_ONCE = 6;

/** A static index as its address describes it. */
export interface Site {
  manifest: StaticManifest;
  /** SHA-256 of the manifest's file, `dpr-static.json`. */
  sha256: string;
  /** The question encoder's manifest, with absolute addresses. */
  model: ModelManifest;
  cache: FileCache;
}

/**
 * Downloads and checks the manifest of a static index, and that of its question encoder. When no answer comes at all,
 * it is the one that this address had the last time: its files are in the cache. All files that it names are noted, so
 * that they stay there, and those that it does not name any more go later.
 *
 * @param expected - SHA-256 of the manifest
 * @param more - further files that it names
 */
export async function fetchSite(
  url: string,
  expected: string | undefined,
  onProgress: ProgressListener,
  requests: Transport,
  signal: AbortSignal | undefined,
  more: (manifest: StaticManifest) => ModelFile[] = () => [],
): Promise<Site> {
  requireSecureContext();
  const text = await fetchText(url, requests, signal);
  const sha256 = await sha256Hex(new TextEncoder().encode(text));
  requireIndex(expected, sha256);
  const manifest = parseStatic(json(text, url), url);
  const cache = await openFileCache();
  const bytes = await fetchFile(manifest.model, cache, onProgress, signal, requests);
  const model = parseManifest(json(new TextDecoder().decode(bytes), manifest.model.url), url);
  if (model.fingerprint !== manifest.fingerprint || model.dim !== manifest.dim) {
    throw notStatic('the question encoder of the static index is of another model than its passages');
  }
  const parts = manifest.parts.flatMap(({ codes, texts, packs }) => [codes, texts, ...packs.map(({ file }) => file)]);
  const files = [manifest.model, manifest.projection, ...Object.values(model.encoder), ...Object.values(model.weights), ...parts, ...more(manifest)];
  await noteIndex(url, files.map(({ sha256 }) => sha256), text);
  return { manifest, sha256, model, cache };
}

/**
 * Refuses another index than the one that is expected.
 *
 * @throws {@link ModelMismatchError}
 */
export function requireIndex(expected: string | undefined, got: string): void {
  if (expected !== undefined && expected.toLowerCase() !== got) throw new ModelMismatchError('index', expected, got);
}

function json(text: string, url: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw notStatic(`${url} is not JSON`);
  }
}

/**
 * Downloads the projection and all parts, from the cache or the network, each checked.
 *
 * @param withTexts - whether the texts are downloaded too
 * @param onPart - called with the bytes of each part, in any order
 */
export async function fetchParts(
  { manifest, cache }: Site,
  onProgress: ProgressListener,
  requests: Transport,
  signal: AbortSignal | undefined,
  withTexts: boolean,
  onPart: (at: number, codes: Uint8Array<ArrayBuffer>, texts: Uint8Array<ArrayBuffer> | undefined) => void,
): Promise<Uint8Array<ArrayBuffer>> {
  // One failure stops the other downloads.
  return within([signal], async (stop) => {
    const get = (file: StaticManifest['projection']) => fetchFile(file, cache, onProgress, stop.signal, requests);
    let next = 0;
    const work = async () => {
      while (next < manifest.parts.length) {
        const at = next++;
        const { codes, texts } = manifest.parts[at]!;
        onPart(at, await get(codes), withTexts ? await get(texts) : undefined);
      }
    };
    const [projection] = await Promise.all([get(manifest.projection), ...Array.from({ length: AT_ONCE }, work)]);
    return projection;
  });
}

async function fetchText(url: string, requests: Transport, signal: AbortSignal | undefined): Promise<string> {
  const { stallTimeout } = requests;
  const limit = {
    milliseconds: stallTimeout,
    error: () => new DownloadError(url, 0, `no answer came within ${stallTimeout / 1000} s`, {}, 'timeout'),
  };
  const ask = async (signal: AbortSignal) => {
    try {
      const response = await requests.send(url, { signal, cache: 'no-cache' });
      if (response.ok) return await response.text();
      throw refused(url, response);
    } catch (error) {
      // The page's own `headers` and `fetch` may throw errors of this package too.
      throw error instanceof DprWebError ? error : new DownloadError(url, 0, 'no answer came', { cause: error });
    }
  };
  try {
    return await within([signal], ({ signal }) => requests.retrying(signal, () => ask(signal)), limit);
  } catch (error) {
    signal?.throwIfAborted();
    const known = error instanceof DownloadError && error.status === 0 && (await recallIndex(url))?.text;
    if (!known) throw error;
    return known;
  }
}
