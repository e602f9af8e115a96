import type { Hit } from '../types/search-result.js';
import { notStatic } from './static-manifest.js';

/** A passage without the score. */
export type Passage = Omit<Hit, 'score' | 'rerankScore'>;

const HEAD = 24;
const KIND = 3;
/** Most uncompressed bytes of a block. */
const MOST_BLOCK = 2 ** 24;

interface Block {
  bytes: Uint8Array<ArrayBuffer>;
  /** Uncompressed bytes. */
  length: number;
}

/** The texts of some passages, compressed in blocks as they were downloaded. A block is opened when it is read. */
export class PassageTexts {
  readonly #name: string;
  readonly #perBlock: number;
  readonly #passages: number;
  readonly #blocks: Block[] = [];

  /**
   * @param passages - as the manifest says
   * @throws {@link ManifestError} where the bytes are not the texts of so many passages
   */
  constructor(bytes: Uint8Array<ArrayBuffer>, passages: number, name: string) {
    this.#name = name;
    this.#passages = passages;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (bytes.length < HEAD || view.getUint32(0) !== 0x44505246 || view.getUint16(4, true) !== KIND || view.getUint16(6, true) !== 1) {
      throw notStatic(`${name} is not a file of texts of format 1`);
    }
    const perBlock = view.getUint32(16, true);
    this.#perBlock = perBlock;
    const blocks = perBlock > 0 ? Math.ceil(passages / perBlock) : 0;
    let at = HEAD + blocks * 8;
    if (view.getBigUint64(8, true) !== BigInt(passages) || blocks === 0 || at > bytes.length) {
      throw notStatic(`${name} does not hold the texts of ${passages} passages`);
    }
    for (let block = 0; block < blocks; block++) {
      const size = view.getUint32(HEAD + block * 8, true);
      const length = view.getUint32(HEAD + block * 8 + 4, true);
      if (at + size > bytes.length || length > MOST_BLOCK) throw notStatic(`block ${block} of ${name} is not in the file`);
      this.#blocks.push({ bytes: bytes.subarray(at, at + size), length });
      at += size;
    }
    // Packs are padded to a fixed length.
    if (at + view.getUint32(20, true) !== bytes.length) throw notStatic(`the length of ${name} is not that of its blocks and its padding`);
  }

  /** The passage at this place, from 0. */
  async read(at: number): Promise<Passage> {
    const block = Math.floor(at / this.#perBlock);
    const expected = Math.min(this.#perBlock, this.#passages - block * this.#perBlock);
    let passages: unknown;
    try {
      passages = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(await inflate(this.#blocks[block]!)));
    } catch (error) {
      throw notStatic(`block ${block} of ${this.#name} cannot be opened: ${(error as Error).message}`);
    }
    const passage: unknown = Array.isArray(passages) && passages.length === expected ? passages[at % this.#perBlock] : undefined;
    if (!isPassage(passage)) throw notStatic(`block ${block} of ${this.#name} does not hold ${expected} passages`);
    const { id, title, text, metadata } = passage;
    return { id, title, text, ...(metadata && { metadata }) };
  }
}

function isPassage(value: unknown): value is Passage {
  const { id, title, text } = (value ?? {}) as Record<string, unknown>;
  return [id, title, text].every((field) => typeof field === 'string');
}

/** The block's bytes, which are not more than it says. */
async function inflate({ bytes, length }: Block): Promise<Uint8Array<ArrayBuffer>> {
  const opened = new Uint8Array(length);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  const reader = stream.getReader();
  let at = 0;
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      if (at + next.value.length > length) throw new Error(`it has more than ${length} bytes`);
      opened.set(next.value, at);
      at += next.value.length;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
  if (at !== length) throw new Error(`it has ${at} bytes, not ${length}`);
  return opened;
}
