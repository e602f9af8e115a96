import { QuestionEncoder } from '../encoder/question-encoder.js';
import { safely } from '../encoder/safely.js';
import { DisposedError } from '../errors/disposed-error.js';
import { OptionError } from '../errors/option-error.js';
import { PrivacyError } from '../errors/privacy-error.js';
import type { SentRequest } from '../types/search-result.js';
import { expected } from '../weights/expected.js';
import { fetchFile } from '../weights/fetch-file.js';
import type { FileCache } from '../weights/file-cache.js';
import { evictOldModels } from '../weights/old-models.js';
import { address } from '../wire/address.js';
import { transport, type Transport } from '../wire/transport.js';
import { untilAborted } from '../wire/until-aborted.js';
import { within } from '../wire/within.js';
import { workerSource } from '../worker/worker-source.js';
import type { AnnouncePack } from './announce-pack.js';
import { readBucket } from './bucket-file.js';
import { BucketRanking, type Plan } from './bucket-ranking.js';
import { fetchPack } from './fetch-pack.js';
import type { LocalOptions, LocalResult } from './local-options.js';
import { PassageTexts } from './passage-texts.js';
import type { AskRanking } from './ranking-session.js';
import { fetchSite, requireIndex, type Site } from './site-files.js';
import { bucketsOf, type StaticBuckets } from './static-buckets.js';

const PROBES = [1, 2, 4, 8];
const MOST_DECOYS = 64;

/** What a search may ask for. */
export interface BucketPlan extends Plan {
  /** SHA-256 of the `dpr-static.json` that is expected. */
  expectIndex: string | undefined;
}

/** What a search asks for. */
export interface BucketAsk extends Plan {
  k: number;
  /** This device's key, which the decoys are made from. */
  key: Uint8Array<ArrayBuffer>;
  signal: AbortSignal;
}

/**
 * Searches an index by few of its buckets: those that a question is about and decoys are fetched whole, and ranked in
 * the page. Whoever hosts them sees which.
 */
export class BucketSearch {
  readonly #encoder: QuestionEncoder;
  readonly #ask: AskRanking<BucketRanking>;
  readonly #buckets: StaticBuckets;
  readonly #cache: FileCache;
  readonly #requests: Transport;
  readonly #lifetime: AbortController;
  readonly #sha256: string;
  /** The fetching of the search before: sets are fetched one after the other. */
  #fetching: Promise<unknown> = Promise.resolve();
  /** Passages of the index. */
  readonly passages: number;
  /** Bytes of everything but the question encoder that was downloaded when it was opened, now or earlier. */
  readonly bytes: number;

  private constructor(site: Site, buckets: StaticBuckets, encoder: QuestionEncoder, ask: AskRanking<BucketRanking>, requests: Transport, lifetime: AbortController) {
    this.#encoder = encoder;
    this.#ask = ask;
    this.#buckets = buckets;
    this.#cache = site.cache;
    this.#requests = requests;
    this.#lifetime = lifetime;
    this.#sha256 = site.sha256;
    this.passages = site.manifest.passages;
    this.bytes = site.manifest.projection.bytes + buckets.centroids.bytes;
  }

  /**
   * Downloads the question encoder, the projection and the centroids of an index, and no passage of it.
   *
   * @throws what {@link LocalSearch.open} throws, and {@link PrivacyError} `not_offered` where it has no buckets
   */
  static async open(url: string | URL, options: Omit<LocalOptions, 'texts'> = {}): Promise<BucketSearch> {
    const source = address(url, "the static index's address").href;
    const { expect, signal, ...rest } = options;
    const onProgress = safely(options.onProgress);
    const requests = transport(options, source, 'same-origin');
    const workers = await workerSource({ ...rest, worker: 'dedicated' });
    let encoder: QuestionEncoder | undefined;
    try {
      return await within([signal], async (life) => {
        let buckets: StaticBuckets | undefined;
        const site = await fetchSite(source, expect?.index, onProgress, requests, life.signal, (manifest) => {
          if (manifest.buckets === undefined) return [];
          buckets = bucketsOf(manifest, source);
          return [buckets.centroids, ...buckets.files.map(({ file }) => file)];
        });
        await expected(site.model, expect);
        if (!buckets) throw noBuckets();
        const found = buckets;
        const { projection, fingerprint } = site.manifest;
        const get = (file: typeof projection) => fetchFile(file, site.cache, onProgress, life.signal, requests);
        const files = () => Promise.all([get(projection), get(found.centroids)]).then(([projection, centroids]) => ({ projection, centroids }));
        // Timing WebGPU would go on, and download its module, after the index is open.
        const load = { device: 'cpu' as const, ...rest, measure: 'never' as const, baseUrl: source, keepOldModels: true };
        const loading = QuestionEncoder.load(site.model, { ...load, expect, signal: life.signal }).then((it) => (encoder = it));
        const starting = BucketRanking.start(workers, fingerprint, files, found.files.length, onProgress, life.signal);
        const [loaded, started] = await Promise.all([loading, starting]);
        if (!rest.keepOldModels) void evictOldModels();
        return new BucketSearch(site, found, loaded, started, requests, life);
      });
    } catch (error) {
      encoder?.dispose();
      throw error;
    }
  }

  /** The question encoder. */
  get encoder(): QuestionEncoder {
    return this.#encoder;
  }

  /** Buckets of the index. */
  get buckets(): number {
    return this.#buckets.files.length;
  }

  /**
   * Refuses numbers of buckets that cannot be fetched (they are never lowered), and an index other than the expected
   * one.
   *
   * @throws {@link OptionError}, {@link ModelMismatchError}
   */
  requirePlan({ probes, decoys, expectIndex }: BucketPlan): void {
    requireIndex(expectIndex, this.#sha256);
    if (!PROBES.includes(probes)) throw new OptionError(`\`probes\` is ${String(probes)}`, 'Give 1, 2, 4 or 8; nothing was fetched.');
    if (!Number.isInteger(decoys) || decoys < 0 || decoys > MOST_DECOYS || decoys % probes !== 0) {
      throw new OptionError(`\`decoys\` is ${String(decoys)}`, `Give a multiple of \`probes\`, ${probes}, up to ${MOST_DECOYS}; nothing was fetched.`);
    }
    if (probes + decoys > this.buckets) {
      throw new OptionError(
        `\`probes\` and \`decoys\` are ${probes + decoys} buckets, the static index has ${this.buckets}`,
        'Ask for fewer, or export the index with smaller buckets; nothing was fetched.',
      );
    }
  }

  /** What the host sees of a search. */
  sees({ probes, decoys }: Plan): string {
    const each = Math.round(this.passages / this.buckets);
    return `which ${probes + decoys} of ${this.buckets} buckets of some ${each} passages were fetched, now or earlier, ${decoys} of them decoys: what the question is about is in some of them`;
  }

  /**
   * Fetches the buckets of a question, those that are not kept yet, in the order of their numbers, and returns the best
   * passages in all of them. Decoys are fetched and checked as the others are.
   *
   * @throws {@link DisposedError}, {@link EncoderError}, {@link ManifestError}, {@link DownloadError} and
   * {@link IntegrityError} for a bucket, or the signal's reason
   */
  async search(text: string, ask: BucketAsk, announce: AnnouncePack): Promise<LocalResult> {
    const begun = performance.now();
    return within([this.#lifetime.signal, ask.signal], async ({ signal }) => {
      const vector = Float32Array.from(await this.#encoder.encode(text, { signal }));
      const encoded = performance.now();
      const requests: SentRequest[] = [];
      const told: AnnouncePack = (request, sent) => {
        requests.push(request);
        return announce(request, sent);
      };
      return this.#ask(async (ranking) => {
        const buckets = await ranking.choose(vector, ask, ask.key, signal);
        const fetching = this.#fetching.then(() => this.#fetch(ranking, buckets, signal, told));
        this.#fetching = fetching.catch(() => undefined);
        await untilAborted(fetching, signal);
        const fetched = performance.now();
        const found = await ranking.rank(vector, buckets, ask.k, signal);
        const ranked = performance.now();
        const reading = Promise.all(found.map(({ bucket, place }) => ranking.texts.get(bucket)!.read(place)));
        const passages = await untilAborted(reading, signal);
        const hits = passages.map((passage, at) => ({ ...passage, score: found[at]!.score }));
        const timings = { encodeMs: encoded - begun, searchMs: performance.now() - encoded, tookMs: ranked - fetched };
        return { hits, timings, requests };
      }, signal);
    });
  }

  async #fetch(ranking: BucketRanking, buckets: number[], signal: AbortSignal, announce: AnnouncePack): Promise<void> {
    for (const bucket of buckets) {
      signal.throwIfAborted();
      if (ranking.texts.has(bucket)) continue;
      const { file, passages } = this.#buckets.files[bucket]!;
      const bytes = await fetchPack(file, this.#cache, signal, this.#requests, announce);
      const { codes, texts } = readBucket(bytes, passages, file.url);
      await ranking.add(bucket, codes, passages, new PassageTexts(texts, passages, file.url));
    }
  }

  /** Ends both workers and frees their memory; what is being searched rejects with {@link DisposedError}. */
  dispose(): void {
    if (this.#lifetime.signal.aborted) return;
    this.#lifetime.abort(new DisposedError('SearchClient'));
    QuestionEncoder.prototype.dispose.call(this.#encoder);
  }
}

function noBuckets(): PrivacyError {
  return new PrivacyError(
    'not_offered',
    'the static index has no buckets',
    "Nothing was searched. Export it with `dpr index export-static --buckets`, or search it with `privacy: 'local'`.",
  );
}
