import { ManifestError } from '../errors/manifest-error.js';
import type { ModelManifest } from '../types/manifest.js';
import { parseManifest } from '../wire/parse-manifest.js';
import { refused } from '../wire/refused.js';

// What reads manifests: a script of its own, which a page fetches while the answer is under way.

export { parseManifest };

/**
 * The manifest that an address answered with.
 *
 * @throws {@link DownloadError} for an answer whose status is not 2xx, {@link ManifestError} for one that is not a manifest
 */
export function readManifest(url: string, response: Response, value: unknown): ModelManifest {
  if (!response.ok) throw refused(url, response);
  if (value instanceof SyntaxError) throw new ManifestError(`${url} did not answer with JSON`);
  return parseManifest(value, response.url || url);
}
