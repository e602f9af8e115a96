import { ModelMismatchError } from '../errors/model-mismatch-error.js';
import type { ExpectedModel } from '../types/expected-model.js';
import type { ModelManifest } from '../types/manifest.js';

const DTYPES = ['q8', 'q4', 'f16', 'f32'] as const;

/**
 * The manifest with those weights that may be loaded. It is enough to compare the manifest's sums: each file is held
 * against them when it arrives.
 *
 * @throws {@link ModelMismatchError} for the first value that is not the expected one
 */
export function requireExpected(manifest: ModelManifest, expect: ExpectedModel | undefined): ModelManifest {
  if (expect?.fingerprint !== undefined) compare('fingerprint', expect.fingerprint, manifest.fingerprint);
  const sums = expect?.sha256 ?? {};
  for (const name of ['config', 'tokenizer'] as const) {
    if (sums[name] !== undefined) compare(name, sums[name], manifest.encoder[name].sha256);
  }
  const named = DTYPES.filter((dtype) => sums[dtype] !== undefined);
  if (named.length === 0) return manifest;
  const weights: ModelManifest['weights'] = {};
  for (const dtype of named) {
    const file = manifest.weights[dtype];
    if (!file) continue;
    compare(dtype, sums[dtype]!, file.sha256);
    weights[dtype] = file;
  }
  if (Object.keys(weights).length === 0) throw new ModelMismatchError(named[0]!, sums[named[0]!], undefined);
  return { ...manifest, weights };
}

function compare(what: string, expected: string, got: string): void {
  if (expected.toLowerCase() !== got) throw new ModelMismatchError(what, expected, got);
}
