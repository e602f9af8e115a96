import { loaded } from '../wire/loaded.js';
import type { ManifestParts } from './fetch-manifest.js';

/** Scripts that a page fetches when it needs them. A service worker can fetch none. */
export const manifestParts: ManifestParts = {
  reader: () => loaded(import('./read-manifest.js')),
  // Where there is a note of a manifest, its script is kept too: the same one writes it.
  recall: async (address) => (await import('./manifest-note.js').catch(() => undefined))?.recallManifest(address),
};
