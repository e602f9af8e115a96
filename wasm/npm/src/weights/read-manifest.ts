import { DownloadError } from '../errors/download-error.js';
import { ManifestError } from '../errors/manifest-error.js';
import type { ModelManifest } from '../types/manifest.js';
import { parseManifest } from '../wire/parse-manifest.js';
import { readServerError } from '../wire/server-error.js';

// What reads manifests: a script of its own, which a page fetches while the answer is under way.

export { parseManifest };

/**
 * The manifest that an address answered with.
 *
 * @throws {@link DownloadError} for an answer whose status is not 2xx, in the server's own words where it has any;
 * {@link ManifestError} for one that is not a manifest
 */
export async function readManifest(url: string, response: Response, value: unknown): Promise<ModelManifest> {
  if (!response.ok) {
    const error = await readServerError(response);
    const { status, code, message, fix } = error;
    // Without the server's own words, 404 and failures of the server have the fix of a download.
    const isOwn = code !== 'unexpected_answer' || status < 404 || status === 429 || status === 503;
    throw new DownloadError(url, status, message, error, undefined, isOwn ? fix : undefined);
  }
  if (value instanceof SyntaxError) throw new ManifestError(`${url} did not answer with JSON`);
  return parseManifest(value, response.url || url);
}
