import { ManifestError } from '../errors/manifest-error.js';
import type { ModelFile } from '../types/manifest.js';
import { file, MOST_TEXT, MOST_WEIGHTS, record, SHA256 } from '../wire/parse-manifest.js';

/** The texts of some passages of a part, in a file of a fixed number of bytes. */
export interface StaticPack {
  passages: number;
  file: ModelFile;
}

/** Some passages of a static index, one after another. */
export interface StaticPart {
  passages: number;
  codes: ModelFile;
  texts: ModelFile;
  /** The same texts in packs; none where the index has no packs. */
  packs: StaticPack[];
}

/** A bucket: passages that are about one thing, with their codes and texts in one file. */
export interface StaticBucket {
  passages: number;
  file: ModelFile;
}

/** The passages of a static index once more, in buckets. */
export interface StaticBuckets {
  /** The fewest passages of a bucket. */
  least: number;
  /** Bytes of a bucket, which all have. */
  bytes: number;
  centroids: ModelFile;
  files: StaticBucket[];
}

/** `dpr-static.json`, checked, with absolute addresses. */
export interface StaticManifest {
  passages: number;
  /** Numbers in a vector. */
  dim: number;
  /** Fingerprint of the model that encoded the passages. */
  fingerprint: string;
  /** The question encoder's manifest. */
  model: ModelFile;
  projection: ModelFile;
  parts: StaticPart[];
  /** `undefined` where the index has no buckets. */
  buckets: StaticBuckets | undefined;
}

/** The newest; 1 has no buckets. */
const FORMAT_VERSION = 2;
/** More than `dpr index export-static` exports. */
const MOST_PASSAGES = 250_000;
const MOST_PARTS = 4096;
/** Most packs of a part: one for each passage. */
const MOST_PACKS = 4096;
const MOST_BUCKETS = 4096;
/** Most bytes of a file of a part: far more than one has. */
const MOST_PART = 2 ** 28;

/** The error for an address that is not of a static index. */
export function notStatic(message: string): ManifestError {
  return new ManifestError(
    message,
    'Check that the address is the `dpr-static.json` that `dpr index export-static` wrote, and that dpr-web is of the same release or a later one.',
  );
}

/**
 * Checks everything this package relies on, and makes file addresses absolute against `base`.
 * @throws {@link ManifestError}
 */
export function parseStatic(value: unknown, base: string): StaticManifest {
  const manifest = record(value, 'the static index');
  const { format_version, bits, model_fingerprint, parts } = manifest;
  const isKnown = format_version === 1 || format_version === FORMAT_VERSION;
  if (!isKnown || bits !== 4) {
    const found = isKnown ? `codes of ${String(bits)} bits` : `format_version ${String(format_version)}`;
    throw notStatic(`the static index has ${found}, this release of dpr-web reads format_version 1 to ${FORMAT_VERSION} and 4 bits`);
  }
  if (typeof model_fingerprint !== 'string' || !SHA256.test(model_fingerprint)) {
    throw notStatic('`model_fingerprint` of the static index is not 64 hex digits');
  }
  if (!Array.isArray(parts) || parts.length > MOST_PARTS) throw notStatic(`\`parts\` of the static index is not a list of at most ${MOST_PARTS}`);
  const passages = count(manifest['passages'], 'passages', MOST_PASSAGES);
  const read = parts.map((value: unknown, at): StaticPart => {
    const part = record(value, `\`parts[${at}]\` of the static index`);
    return {
      passages: count(part['passages'], `parts[${at}].passages`, MOST_PASSAGES),
      codes: file(part['codes'], `parts[${at}].codes`, MOST_PART, base),
      texts: file(part['texts'], `parts[${at}].texts`, MOST_PART, base),
      packs: packsOf(part, at, base),
    };
  });
  const sum = read.reduce((sum, part) => sum + part.passages, 0);
  if (sum !== passages) throw notStatic(`the parts of the static index hold ${sum} passages, not ${passages}`);
  return {
    passages,
    dim: count(manifest['dim'], 'dim', 2 ** 16),
    fingerprint: model_fingerprint,
    model: file(manifest['model'], 'model', MOST_TEXT, base),
    projection: file(manifest['projection'], 'projection', MOST_WEIGHTS, base),
    parts: read,
    buckets: manifest['buckets'] === undefined ? undefined : bucketsOf(manifest['buckets'], passages, base),
  };
}

/** Checks buckets: one that is smaller than promised, or has a length of its own, would show more than it says. */
function bucketsOf(value: unknown, passages: number, base: string): StaticBuckets {
  const buckets = record(value, '`buckets` of the static index');
  const { files } = buckets;
  if (!Array.isArray(files) || files.length < 1 || files.length > MOST_BUCKETS) {
    throw notStatic(`\`buckets.files\` of the static index is not a list of 1 to ${MOST_BUCKETS}`);
  }
  const least = count(buckets['least'], 'buckets.least', MOST_PASSAGES);
  const read = files.map((value: unknown, at): StaticBucket => {
    const name = `buckets.files[${at}]`;
    const bucket = record(value, `\`${name}\` of the static index`);
    const passages = count(bucket['passages'], `${name}.passages`, MOST_PASSAGES);
    if (passages < least) throw notStatic(`bucket ${at} of the static index has ${passages} passages, fewer than the ${least} that were promised`);
    return { passages, file: file(bucket, name, MOST_PART, base) };
  });
  const sum = read.reduce((sum, bucket) => sum + bucket.passages, 0);
  if (sum !== passages) throw notStatic(`the buckets of the static index hold ${sum} passages, not ${passages}`);
  const { bytes } = read[0]!.file;
  if (read.some(({ file }) => file.bytes !== bytes)) throw notStatic('the buckets of the static index do not all have one length');
  if (new Set(read.map(({ file }) => file.sha256)).size !== read.length) throw notStatic('two buckets of the static index are one file');
  return { least, bytes, centroids: file(buckets['centroids'], 'buckets.centroids', MOST_PART, base), files: read };
}

function packsOf({ packs = [], passages }: Record<string, unknown>, part: number, base: string): StaticPack[] {
  if (!Array.isArray(packs) || packs.length > MOST_PACKS) {
    throw notStatic(`\`parts[${part}].packs\` of the static index is not a list of at most ${MOST_PACKS}`);
  }
  const read = packs.map((value: unknown, at): StaticPack => {
    const name = `parts[${part}].packs[${at}]`;
    const pack = record(value, `\`${name}\` of the static index`);
    return { passages: count(pack['passages'], `${name}.passages`, MOST_PASSAGES), file: file(pack, name, MOST_PART, base) };
  });
  const sum = read.reduce((sum, pack) => sum + pack.passages, 0);
  if (read.length > 0 && sum !== passages) throw notStatic(`the packs of part ${part} of the static index hold ${sum} passages, not ${String(passages)}`);
  return read;
}

function count(value: unknown, what: string, most: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= most) return value;
  throw notStatic(`\`${what}\` of the static index is ${String(value)}, expected a whole number from 1 to ${most}`);
}
