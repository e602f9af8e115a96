import type { ModelFile } from '../types/manifest.js';
import { file, record } from '../wire/parse-manifest.js';
import { count, MOST_PART, MOST_PASSAGES, notStatic, type StaticManifest } from './static-manifest.js';

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

const MOST_BUCKETS = 4096;

/**
 * Checks buckets: one that is smaller than promised, or has a length of its own, would show more than it says.
 *
 * @throws {@link ManifestError}
 */
export function bucketsOf(manifest: StaticManifest, base: string): StaticBuckets {
  const { passages } = manifest;
  const buckets = record(manifest.buckets, '`buckets` of the static index');
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
