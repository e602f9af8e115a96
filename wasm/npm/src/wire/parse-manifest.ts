import { ManifestError } from '../errors/manifest-error.js';
import type { FileChunks, ModelFile, ModelManifest } from '../types/manifest.js';

/** The second format is the first with encoders that the first releases did not know. */
const FORMAT_VERSIONS: readonly unknown[] = [1, 2];

export const SHA256 = /^[0-9a-f]{64}$/;
/** Most bytes of weights: a module's memory ends at 4 GiB, and a file is in it twice while it is read. */
export const MOST_WEIGHTS = 2 ** 31;
/** Most bytes of a configuration or a tokenizer; the largest tokenizers have some 20 million. */
export const MOST_TEXT = 2 ** 26;

/** Checks everything this package relies on, and makes file addresses absolute against `base`. */
export function parseManifest(value: unknown, base: string | URL | undefined): ModelManifest {
  const manifest = record(value, 'the manifest');
  if (!FORMAT_VERSIONS.includes(manifest['format_version'])) {
    throw new ManifestError(
      `the model manifest has format_version ${String(manifest['format_version'])}, this release of dpr-web reads ${FORMAT_VERSIONS.join(' and ')}`,
      'Use the release of dpr-web of the server.',
    );
  }
  const fingerprint = manifest['fingerprint'];
  if (typeof fingerprint !== 'string' || !SHA256.test(fingerprint)) {
    throw new ManifestError('`fingerprint` of the model manifest is not 64 hex digits');
  }
  const dim = manifest['dim'] as number;
  if (!Number.isInteger(dim) || dim < 1) {
    throw new ManifestError(`\`dim\` of the model manifest is ${String(dim)}, expected a positive integer`);
  }
  const prompt = manifest['question_prompt'];
  if (prompt !== undefined && typeof prompt !== 'string') {
    throw new ManifestError('`question_prompt` of the model manifest is not a string');
  }
  const encoder = record(manifest['encoder'], '`encoder` of the model manifest');
  const vocabulary = encoder['vocabulary'];
  const weights: ModelManifest['weights'] = {};
  // A server whose model was not exported for browsers leaves them out.
  for (const [name, entry] of Object.entries(record(manifest['weights'] ?? {}, '`weights` of the model manifest'))) {
    // A format this release does not know is no error: a newer server may offer more.
    if (name === 'f32' || name === 'f16' || name === 'q8' || name === 'q4') weights[name] = file(entry, `weights.${name}`, MOST_WEIGHTS, base);
  }
  if (Object.keys(weights).length === 0) {
    throw new ManifestError(
      'the model manifest offers no weights',
      'Run `dpr export-web --model MODEL` and restart the server.',
      'no_weights',
    );
  }
  return {
    ...(manifest as unknown as ModelManifest),
    encoder: {
      config: file(encoder['config'], 'encoder.config', MOST_TEXT, base),
      tokenizer: file(encoder['tokenizer'], 'encoder.tokenizer', MOST_TEXT, base),
      ...(vocabulary !== undefined && { vocabulary: file(vocabulary, 'encoder.vocabulary', MOST_TEXT, base) }),
    },
    weights,
  };
}

/** The value, which must be an object. */
export function record(value: unknown, what: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ManifestError(`${what} is not a JSON object`);
  }
  return value as Record<string, unknown>;
}

/** A file of a manifest, with an absolute address. */
export function file(value: unknown, what: string, most: number, base: string | URL | undefined): ModelFile {
  const { url, bytes, sha256, chunks } = record(value, `\`${what}\` of the model manifest`) as {
    // Checked below.
    bytes: number;
    [name: string]: unknown;
  };
  if (typeof url !== 'string' || typeof sha256 !== 'string' || !SHA256.test(sha256)) {
    throw new ManifestError(`\`${what}\` of the model manifest needs url, bytes and sha256`);
  }
  if (!Number.isInteger(bytes) || bytes < 1 || bytes > most) {
    throw new ManifestError(`\`${what}.bytes\` of the model manifest is ${bytes}, expected a whole number from 1 to ${most}`);
  }
  try {
    // Whoever uses the parts checks them.
    return { url: new URL(url, base).href, bytes, sha256, ...(chunks ? { chunks: chunks as FileChunks } : {}) };
  } catch {
    throw new ManifestError(`\`${what}.url\` of the model manifest is not an address: ${url}`);
  }
}
