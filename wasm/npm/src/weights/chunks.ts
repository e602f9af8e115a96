import { IntegrityError } from '../errors/integrity-error.js';
import type { FileChunks, ModelFile } from '../types/manifest.js';
import { sha256Hex } from './sha256.js';

/** Most bytes of a part: it is in memory until its sum is known. */
const LARGEST = 16 * 2 ** 20;

const SHA256 = /^[0-9a-f]{64}$/;

/** The parts of a file, where the manifest has usable sums of all of them. */
export function chunksOf({ bytes, chunks }: ModelFile): FileChunks | undefined {
  const size = chunks?.bytes;
  const sums = chunks?.sha256;
  if (!Number.isInteger(size) || size! < 1 || size! > LARGEST || !Array.isArray(sums)) return undefined;
  const isWhole = sums.length === Math.ceil(bytes / size!) && sums.every((sum) => SHA256.test(sum));
  return isWhole ? chunks : undefined;
}

/** Puts the bytes of a file together to its parts, in order, and checks each. */
export class ChunkReader {
  /** Bytes that were taken. */
  #end = 0;
  #part: Uint8Array<ArrayBuffer> | undefined;
  readonly #name: string;
  readonly #total: number;
  readonly #chunks: FileChunks;
  readonly #onChunk: (chunk: Uint8Array<ArrayBuffer>, index: number) => void;

  /** @param onChunk - called for every part, in order, after its sum was found to be right */
  constructor(
    name: string,
    total: number,
    chunks: FileChunks,
    onChunk: (chunk: Uint8Array<ArrayBuffer>, index: number) => void,
  ) {
    this.#name = name;
    this.#total = total;
    this.#chunks = chunks;
    this.#onChunk = onChunk;
  }

  /** Whether all parts are there. */
  get isWhole(): boolean {
    return this.#end === this.#total;
  }

  /**
   * Takes bytes that begin at this place in the file. Those that were taken before are passed over.
   * @throws {@link IntegrityError} for a part that is not the one that the manifest names, or bytes behind the end
   */
  async take(bytes: Uint8Array, at: number): Promise<void> {
    const { bytes: size, sha256 } = this.#chunks;
    let rest = bytes.subarray(this.#end - at);
    if (this.#end + rest.length > this.#total) {
      throw new IntegrityError(this.#name, sha256.at(-1)!, `more than the expected ${this.#total} bytes`);
    }
    while (rest.length > 0) {
      const index = Math.floor(this.#end / size);
      const start = index * size;
      this.#part ??= new Uint8Array(Math.min(size, this.#total - start));
      const now = rest.subarray(0, start + this.#part.length - this.#end);
      this.#part.set(now, this.#end - start);
      this.#end += now.length;
      rest = rest.subarray(now.length);
      if (this.#end < start + this.#part.length) return;
      const part = this.#part;
      this.#part = undefined;
      const got = await sha256Hex(part);
      if (got !== sha256[index]) {
        throw new IntegrityError(this.#name, sha256[index]!, `${got} in part ${index + 1} of ${sha256.length}`);
      }
      this.#onChunk(part, index);
    }
  }
}
