import { PrivacyError } from '../errors/privacy-error.js';
import type { FileCache } from '../weights/file-cache.js';
import type { Transport } from '../wire/transport.js';
import type { AnnouncePack } from './announce-pack.js';
import { fetchPack } from './fetch-pack.js';
import { PassageTexts, type Passage } from './passage-texts.js';
import type { StaticManifest, StaticPack } from './static-manifest.js';

/** The texts of all passages of an index, by their rows. */
export interface TextFiles {
  /** The passages of these rows, in their order. */
  read(rows: number[], signal: AbortSignal, announce: AnnouncePack): Promise<Passage[]>;
}

/** Texts that were all downloaded before the first question: reading them requests nothing. */
export function allTexts(parts: PassageTexts[], { parts: described }: StaticManifest): TextFiles {
  const starts = startsOf(described);
  const read = (row: number) => {
    const at = last(starts, row);
    return parts[at]!.read(row - starts[at]!);
  };
  return { read: (rows) => Promise.all(rows.map(read)) };
}

/** Texts in packs, each fetched when a passage of it was found: whoever hosts them sees which. */
export class PackedTexts implements TextFiles {
  readonly #packs: StaticPack[];
  readonly #starts: number[];
  readonly #cache: FileCache;
  readonly #requests: Transport;
  readonly #opened = new Map<number, Promise<PassageTexts>>();

  /** @throws {@link PrivacyError} `not_offered` where the index has no packs: all texts would be another mode */
  constructor({ parts }: StaticManifest, cache: FileCache, requests: Transport) {
    if (parts.some(({ packs }) => packs.length === 0)) {
      throw new PrivacyError(
        'not_offered',
        'the static index has no packs of texts',
        'Export it with `dpr index export-static --pack-bytes 65536`, or leave `texts` out: all are downloaded.',
      );
    }
    this.#packs = parts.flatMap(({ packs }) => packs);
    this.#starts = startsOf(this.#packs);
    this.#cache = cache;
    this.#requests = requests;
  }

  async read(rows: number[], signal: AbortSignal, announce: AnnouncePack): Promise<Passage[]> {
    const places = rows.map((row) => last(this.#starts, row));
    // In the order of the packs: the order of the passages is the page's.
    const wanted = [...new Set(places)].sort((a, b) => a - b);
    const opened = await Promise.all(wanted.map((at) => this.#open(at, signal, announce)));
    return Promise.all(rows.map((row, at) => opened[wanted.indexOf(places[at]!)]!.read(row - this.#starts[places[at]!]!)));
  }

  async #open(at: number, signal: AbortSignal, announce: AnnouncePack): Promise<PassageTexts> {
    for (let known = this.#opened.get(at); known; known = this.#opened.get(at)) {
      // The download ends with the search that began it. If that one is aborted or fails, this search downloads the pack.
      const texts = await known.catch(() => undefined);
      if (texts) return texts;
    }
    const { file, passages } = this.#packs[at]!;
    const fetching = fetchPack(file, this.#cache, signal, this.#requests, announce);
    const opening = fetching.then((bytes) => new PassageTexts(bytes, passages, file.url));
    this.#opened.set(at, opening);
    opening.catch(() => this.#opened.delete(at));
    return opening;
  }
}

function startsOf(files: { passages: number }[]): number[] {
  let row = 0;
  return files.map(({ passages }) => (row += passages) - passages);
}

/** The place of the last of these numbers, which rise, that is not above `row`. */
const last = (starts: number[], row: number): number => starts.filter((start) => start <= row).length - 1;
