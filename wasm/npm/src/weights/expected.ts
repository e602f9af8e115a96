import type { ExpectedModel } from '../types/expected-model.js';
import type { ModelManifest } from '../types/manifest.js';
import { loaded } from '../wire/loaded.js';

/**
 * The manifest with those weights that may be loaded. What compares it is a script of its own, for pages that expect a
 * model.
 *
 * @throws {@link ModelMismatchError} for the first value that is not the expected one
 */
export async function expected(manifest: ModelManifest, expect: ExpectedModel | undefined): Promise<ModelManifest> {
  return expect ? (await loaded(import('./require-expected.js'))).requireExpected(manifest, expect) : manifest;
}
