import { ManifestError } from '../errors/manifest-error.js';
import type { Dtype } from '../types/device.js';
import type { ModelManifest, PairModel } from '../types/manifest.js';
import type { PairKind } from '../types/pair-files.js';
import { MOST_TEXT, MOST_WEIGHTS, SHA256, file, record } from '../wire/parse-manifest.js';

const DTYPES = ['q8', 'q4', 'f16', 'f32'] as const;

/**
 * The model of this kind that a manifest offers, checked, with absolute addresses; `undefined` where there is none.
 *
 * @param base - address of the manifest
 * @throws {@link ManifestError}
 */
export function pairModel(manifest: ModelManifest, kind: PairKind, base: URL): PairModel | undefined {
  if (manifest[kind] === undefined) return undefined;
  const what = `\`${kind}\` of the model manifest`;
  const { name, fingerprint, max_tokens, config, tokenizer, weights } = record(manifest[kind], what);
  if (typeof fingerprint !== 'string' || !SHA256.test(fingerprint)) {
    throw new ManifestError(`\`fingerprint\` in ${what} is not 64 hex digits`);
  }
  if (typeof max_tokens !== 'number' || !Number.isInteger(max_tokens) || max_tokens < 1) {
    throw new ManifestError(`\`max_tokens\` in ${what} is ${String(max_tokens)}, expected a positive integer`);
  }
  const offered = record(weights, `\`${kind}.weights\` of the model manifest`);
  const known: PairModel['weights'] = {};
  for (const dtype of DTYPES) {
    if (offered[dtype] === undefined) continue;
    const shares: unknown = record(offered[dtype], `\`${kind}.weights.${dtype}\` of the model manifest`)['shares'] ?? [];
    if (!Array.isArray(shares) || !shares.every((tensor) => typeof tensor === 'string')) {
      throw new ManifestError(`\`${kind}.weights.${dtype}.shares\` of the model manifest is not a list of names`);
    }
    known[dtype] = { ...file(offered[dtype], `${kind}.weights.${dtype}`, MOST_WEIGHTS, base), shares };
  }
  return {
    name: String(name),
    fingerprint,
    max_tokens,
    config: file(config, `${kind}.config`, MOST_TEXT, base),
    tokenizer: file(tokenizer, `${kind}.tokenizer`, MOST_TEXT, base),
    weights: known,
  };
}

/**
 * The format to download: the one that the question encoder has, so that shared tensors are here already, or else the
 * smallest for which there is all that is shared.
 *
 * @throws {@link ManifestError} when there is none
 */
export function pairDtype(pair: PairModel, encoder: ModelManifest, preferred: Dtype): Dtype {
  const isWhole = (dtype: Dtype) => {
    const weights = pair.weights[dtype];
    return weights !== undefined && (weights.shares!.length === 0 || encoder.weights[dtype] !== undefined);
  };
  const found = [preferred, ...DTYPES].find(isWhole);
  if (found) return found;
  throw new ManifestError(
    `the model ${pair.name} has no weights that this page can use`,
    'Run `dpr export-web` again, and restart the server.',
    'no_weights',
  );
}
