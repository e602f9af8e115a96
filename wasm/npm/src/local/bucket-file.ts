import { notStatic } from './static-manifest.js';

const HEAD = 24;
const KIND = 5;

/** A bucket's codes and texts, as views of its bytes. */
export interface BucketFile {
  codes: Uint8Array<ArrayBuffer>;
  texts: Uint8Array<ArrayBuffer>;
}

/**
 * Takes a bucket apart.
 *
 * @param passages - as the manifest says
 * @throws {@link ManifestError} where the bytes are not a bucket of so many passages
 */
export function readBucket(bytes: Uint8Array<ArrayBuffer>, passages: number, name: string): BucketFile {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < HEAD || view.getUint32(0) !== 0x44505246 || view.getUint16(4, true) !== KIND || view.getUint16(6, true) !== 1) {
    throw notStatic(`${name} is not a bucket of format 1`);
  }
  if (view.getBigUint64(8, true) !== BigInt(passages)) throw notStatic(`${name} does not hold the ${passages} passages that were promised`);
  const texts = HEAD + view.getUint32(16, true);
  const end = texts + view.getUint32(20, true);
  // Padded to the length of the longest.
  if (end > bytes.length || bytes.subarray(end).some((byte) => byte !== 0)) {
    throw notStatic(`the length of ${name} is not that of its codes, its texts and its padding`);
  }
  return { codes: bytes.subarray(HEAD, texts), texts: bytes.subarray(texts, end) };
}
