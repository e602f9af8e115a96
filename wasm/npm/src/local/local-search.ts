import { QuestionEncoder } from '../encoder/question-encoder.js';
import { safely } from '../encoder/safely.js';
import { DisposedError } from '../errors/disposed-error.js';
import { OptionError } from '../errors/option-error.js';
import type { Device } from '../types/device.js';
import { asyncDispose, dispose } from '../types/disposable.js';
import type { ModelManifest } from '../types/manifest.js';
import type { SentRequest } from '../types/search-result.js';
import { expected } from '../weights/expected.js';
import { evictOldModels } from '../weights/old-models.js';
import { address } from '../wire/address.js';
import { transport } from '../wire/transport.js';
import { within } from '../wire/within.js';
import { workerSource } from '../worker/worker-source.js';
import type { AnnouncePack } from './announce-pack.js';
import type { LocalOptions, LocalResult, LocalSearchOptions } from './local-options.js';
import { PassageTexts } from './passage-texts.js';
import { allTexts, PackedTexts, type TextFiles } from './text-files.js';
import { startRank, type Rank, type RankingFiles } from './ranking.js';
import { fetchParts, fetchSite, requireIndex, type Site } from './site-files.js';

const DEFAULT_K = 10;

/**
 * Searches an index in the page: everything is downloaded when it is opened, nothing is sent when it is searched.
 *
 * @example
 * const search = await LocalSearch.open('https://files.example.org/dpr/dpr-static.json');
 * const { hits } = await search.search('who won super bowl 50', { k: 5 });
 * for (const { title, text, score } of hits) console.log(score, title, text);
 * search.dispose();
 */
export class LocalSearch {
  readonly #encoder: QuestionEncoder;
  readonly #rank: Rank;
  readonly #texts: TextFiles;
  readonly #lifetime: AbortController;
  /** SHA-256 of its `dpr-static.json`. */
  readonly #sha256: string;
  /** Passages of the index. */
  readonly passages: number;
  /** Bytes of everything but the question encoder that was downloaded when it was opened, now or earlier. */
  readonly bytes: number;
  /** Packs of texts that are fetched when a passage of them was found; 0 where all texts were downloaded. */
  readonly packs: number;

  private constructor(site: Site, encoder: QuestionEncoder, rank: Rank, texts: TextFiles, lifetime: AbortController) {
    this.#encoder = encoder;
    this.#rank = rank;
    this.#texts = texts;
    this.#lifetime = lifetime;
    this.#sha256 = site.sha256;
    const { passages, parts, projection } = site.manifest;
    this.passages = passages;
    this.packs = texts instanceof PackedTexts ? parts.reduce((sum, { packs }) => sum + packs.length, 0) : 0;
    this.bytes = parts.reduce((sum, { codes, texts }) => sum + codes.bytes + (this.packs ? 0 : texts.bytes), projection.bytes);
  }

  /**
   * Downloads an index and its question encoder, checks every file, and makes both ready. Files that are in the cache,
   * from an earlier visit or an earlier version of the index, are not downloaded again; without a network, all of them
   * are taken from there.
   *
   * @param url - address of a `dpr-static.json`, absolute or relative to the document
   * @throws {@link ManifestError}, {@link ModelMismatchError}, {@link DownloadError}, {@link IntegrityError},
   * {@link InsecureContextError}, {@link EncoderError}, {@link OptionError}, or the signal's reason; nothing stays
   * behind but files that were downloaded whole
   */
  static async open(url: string | URL, options: LocalOptions = {}): Promise<LocalSearch> {
    const source = address(url, "the static index's address").href;
    const { expect, signal, texts: which = 'all', ...rest } = options;
    if (which !== 'all' && which !== 'packs') {
      throw new OptionError(`\`texts\` is ${which as string}`, "Give 'all' or 'packs'.");
    }
    const onProgress = safely(options.onProgress);
    const requests = transport(options, source, 'same-origin');
    const workers = await workerSource({ ...rest, worker: 'dedicated' });
    let encoder: QuestionEncoder | undefined;
    try {
      return await within([signal], async (life) => {
        const site = await fetchSite(source, expect?.index, onProgress, requests, life.signal);
        // Before anything else of it is downloaded.
        await expected(site.model, expect);
        const packed = which === 'packs' ? new PackedTexts(site.manifest, site.cache, requests) : undefined;
        const { parts, fingerprint } = site.manifest;
        const texts: PassageTexts[] = [];
        const files = async () => {
          const read: RankingFiles['parts'] = [];
          // Texts stay in the page: a worker in the place of one that has ended needs the codes alone.
          const projection = await fetchParts(site, onProgress, requests, life.signal, !packed && !texts[0], (at, codes, text) => {
            const { passages, texts: file } = parts[at]!;
            read[at] = { passages, codes };
            if (text) texts[at] = new PassageTexts(text, passages, file.url);
          });
          return { projection, parts: read };
        };
        const loading = QuestionEncoder.load(site.model, {
          device: 'cpu',
          ...rest,
          expect,
          // Timing WebGPU would go on, and download its module, after the index is open.
          measure: 'never',
          baseUrl: source,
          keepOldModels: true,
          signal: life.signal,
        }).then((it) => (encoder = it));
        const [loaded, started] = await Promise.all([loading, startRank(workers, fingerprint, files, onProgress, life.signal)]);
        if (!rest.keepOldModels) void evictOldModels();
        return new LocalSearch(site, loaded, started, packed ?? allTexts(texts, site.manifest), life);
      });
    } catch (error) {
      encoder?.dispose();
      throw error;
    }
  }

  /** The question encoder's manifest, with absolute addresses. */
  get model(): ModelManifest {
    return this.#encoder.model;
  }

  /**
   * The question encoder, for other parts of this package.
   * @internal
   */
  static encoder(search: LocalSearch): QuestionEncoder {
    return search.#encoder;
  }

  /** Where questions are encoded now; passages are ranked on the CPU. */
  get device(): Device {
    return this.#encoder.device;
  }

  /**
   * Finds the passages nearest to a question. All passages are compared, in a worker; nothing is requested, but with
   * `texts: 'packs'` the packs of the passages that were found.
   *
   * @throws {@link DisposedError}, {@link EncoderError}, {@link OptionError}, {@link ManifestError} where the texts
   * that were found make no sense, {@link DownloadError} and {@link IntegrityError} for a pack, or the signal's reason
   */
  async search(text: string, options: LocalSearchOptions = {}): Promise<LocalResult> {
    return LocalSearch.find(this, text, options, (_, sent) => sent);
  }

  /**
   * Searches and tells of each request when it is made, for other parts of this package. `expectIndex` is the SHA-256
   * of the only index that is searched.
   * @internal
   */
  static async find(
    search: LocalSearch,
    text: string,
    { k = DEFAULT_K, signal, expectIndex }: LocalSearchOptions & { expectIndex?: string | undefined },
    announce: AnnouncePack,
  ): Promise<LocalResult> {
    requireIndex(expectIndex, search.#sha256);
    if (!Number.isInteger(k) || k < 1) throw new OptionError(`\`k\` is ${k}`, 'Give a whole number from 1 on.');
    const begun = performance.now();
    return within([search.#lifetime.signal, signal], async ({ signal }) => {
      const vector = Float32Array.from(await search.#encoder.encode(text, { signal }));
      const encoded = performance.now();
      const found = await search.#rank(vector, Math.min(k, search.passages), signal);
      const ranked = performance.now();
      const requests: SentRequest[] = [];
      const told: AnnouncePack = (request, sent) => {
        requests.push(request);
        return announce(request, sent);
      };
      const passages = await search.#texts.read(found.map(({ row }) => row), signal, told);
      return {
        hits: passages.map((passage, at) => ({ ...passage, score: found[at]!.score })),
        timings: { encodeMs: encoded - begun, searchMs: performance.now() - encoded, tookMs: ranked - encoded },
        requests,
      };
    });
  }

  /**
   * Ends both workers and frees their memory. What is being searched rejects with {@link DisposedError}. Calling it
   * again does nothing.
   */
  dispose(): void {
    if (this.#lifetime.signal.aborted) return;
    this.#lifetime.abort(new DisposedError('LocalSearch'));
    QuestionEncoder.prototype.dispose.call(this.#encoder);
  }

  /** {@link LocalSearch.dispose}, for `using search = …`. */
  [dispose](): void {
    this.dispose();
  }

  /** {@link LocalSearch.dispose}, for `await using search = …`. */
  async [asyncDispose](): Promise<void> {
    this.dispose();
  }
}
