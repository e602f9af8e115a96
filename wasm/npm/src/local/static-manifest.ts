import { ManifestError } from '../errors/manifest-error.js';
import type { ModelFile } from '../types/manifest.js';
import { MOST_TEXT, MOST_WEIGHTS, SHA256, file, record } from '../wire/parse-manifest.js';

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
  /** Buckets as they are described, not checked; `undefined` where the index has none. */
  buckets: unknown;
}

/** The newest; 1 has no buckets. */
const FORMAT_VERSION = 2;
/** More than `dpr index export-static` exports. */
export const MOST_PASSAGES = 250_000;
const MOST_PARTS = 4096;
/** Most packs of a part: one for each passage. */
const MOST_PACKS = 4096;
/** Most bytes of a file of a part: far more than one has. */
export const MOST_PART = 2 ** 28;

/** The error for an address that is not of a static index. */
export function notStatic(message: string): ManifestError {
  return new ManifestError(
    message,
    'Check that the address is the `dpr-static.json` that `dpr index export-static` wrote, and dpr-web not older.',
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
    throw notStatic(`the static index has ${found}, this dpr-web reads format_version 1 to ${FORMAT_VERSION} and 4 bits`);
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
    buckets: manifest['buckets'],
  };
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

/** A whole number from 1 on. */
export function count(value: unknown, what: string, most: number): number {
  const number = value as number;
  if (Number.isInteger(number) && number >= 1 && number <= most) return number;
  throw notStatic(`\`${what}\` of the static index is ${number}, expected a whole number from 1 to ${most}`);
}
