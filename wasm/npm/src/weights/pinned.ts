import { loaded } from '../client/loaded.js';
import type { ExpectedModel } from '../types/expected-model.js';
import type { ModelManifest } from '../types/manifest.js';

/** The manifest with those weights that may be loaded. The check is fetched where a model is expected. */
export async function pinned(manifest: ModelManifest, expect: ExpectedModel | undefined): Promise<ModelManifest> {
  return expect ? (await loaded(import('./require-expected.js'))).requireExpected(manifest, expect) : manifest;
}
