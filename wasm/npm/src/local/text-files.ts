import { PrivacyError } from '../errors/privacy-error.js';
import type { SentRequest } from '../types/search-result.js';
import { fetchFile } from '../weights/fetch-file.js';
import type { FileCache } from '../weights/file-cache.js';
import type { Transport } from '../wire/transport.js';
import type { AnnouncePack } from './announce-pack.js';
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
    const opening = this.#fetch(at, signal, announce);
    this.#opened.set(at, opening);
    opening.catch(() => this.#opened.delete(at));
    return opening;
  }

  async #fetch(at: number, signal: AbortSignal, announce: AnnouncePack): Promise<PassageTexts> {
    const { file, passages } = this.#packs[at]!;
    const isKept = (await this.#cache.read(file.sha256)) !== undefined;
    const fetching = fetchFile(file, this.#cache, () => undefined, signal, this.#requests);
    const request: SentRequest = { method: 'GET', url: file.url, headers: {}, body: '', bytes: 0 };
    return new PassageTexts(await (isKept ? fetching : announce(request, fetching)), passages, file.url);
  }
}

function startsOf(files: { passages: number }[]): number[] {
  let row = 0;
  return files.map(({ passages }) => (row += passages) - passages);
}

/** The place of the last of these numbers, which rise, that is not above `row`. */
const last = (starts: number[], row: number): number => starts.filter((start) => start <= row).length - 1;
