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
  const encoder = requireEncoder(manifest.encoder, sums);
  const named = DTYPES.filter((dtype) => sums[dtype] !== undefined);
  if (named.length === 0) return { ...manifest, encoder };
  const weights: ModelManifest['weights'] = {};
  for (const dtype of named) {
    const file = manifest.weights[dtype];
    if (!file) continue;
    compare(dtype, sums[dtype]!, file.sha256);
    weights[dtype] = file;
  }
  if (Object.keys(weights).length === 0) throw new ModelMismatchError(named[0]!, sums[named[0]!], undefined);
  return { ...manifest, encoder, weights };
}

/** The small files, with the form of the tokenizer that may be loaded. */
function requireEncoder(
  { config, tokenizer, vocabulary }: ModelManifest['encoder'],
  sums: NonNullable<ExpectedModel['sha256']>,
): ModelManifest['encoder'] {
  if (sums.config !== undefined) compare('config', sums.config, config.sha256);
  if (sums.tokenizer !== undefined) compare('tokenizer', sums.tokenizer, tokenizer.sha256);
  if (sums.vocabulary !== undefined && (vocabulary || sums.tokenizer === undefined)) {
    compare('vocabulary', sums.vocabulary, vocabulary?.sha256);
  } else if (sums.tokenizer !== undefined) {
    // The binary form is another file, which nobody vouches for.
    return { config, tokenizer };
  }
  return { config, tokenizer, ...(vocabulary && { vocabulary }) };
}

function compare(what: string, expected: string, got: string | undefined): void {
  if (expected.toLowerCase() !== got) throw new ModelMismatchError(what, expected, got);
}
