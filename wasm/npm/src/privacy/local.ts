import type { QuestionEncoder } from '../encoder/question-encoder.js';
import type { LocalSearch } from '../local/local-search.js';
import { OptionError } from '../errors/option-error.js';
import type { ConnectOptions, SearchOptions } from '../types/options.js';
import type { PrivacyMode, PrivacyOptions } from '../types/privacy.js';
import type { SearchResult } from '../types/search-result.js';
import { loaded } from '../wire/loaded.js';
import { openBuckets } from './bucket.js';
import { modeOf } from './mode-of.js';
import type { PrivateParts } from './parts.js';
import { spent } from './spent.js';

type LocalOptions = Extract<PrivacyOptions, { mode: 'local' }>;

const NOTHING = 'nothing: the page searched by itself and sent nothing';

/** The static index that each question encoder belongs to. */
const opened = new WeakMap<QuestionEncoder, LocalSearch>();

/** What a client loads in the place of a server's question encoder. */
export const LocalEncoder = {
  /** Downloads a static index and returns its question encoder; disposing that ends both. */
  async load(source: URL, options: ConnectOptions, _previous?: QuestionEncoder): Promise<QuestionEncoder> {
    const { encoder: size, expect } = options;
    if (size) throw new OptionError(`\`encoder\` is ${size}`, 'Leave it out: a static index has one encoder.');
    const { expectIndex: index = expect?.index, texts } = Object(options.privacy) as LocalOptions;
    const pinned = { ...options, texts, expect: { ...expect, index } };
    if (modeOf(options.privacy) === 'bucket') return openBuckets(source, pinned);
    const { LocalSearch } = await loaded(import('../local/local-search.js'));
    options.signal?.throwIfAborted();
    const search = await LocalSearch.open(source, pinned);
    const encoder = LocalSearch.encoder(search);
    opened.set(encoder, search);
    // The client knows the encoder alone.
    encoder.dispose = () => search.dispose();
    return encoder;
  },
};

/** Searches once, in the page. */
export function searchLocal(
  [, , , , , ready, announced]: PrivateParts,
  text: string,
  k: number,
  options: SearchOptions,
  { expectIndex }: LocalOptions,
): Promise<SearchResult> {
  return ready(options, async (encoder, signal, start) => {
    const search = opened.get(encoder)!;
    const { hits, timings, requests } = await (search.constructor as typeof LocalSearch).find(
      search,
      text,
      { k, signal, expectIndex },
      (request, sent) => announced(request, signal, sent),
    );
    return { hits, timings: spent(timings, start), request: requests[0], requests: [...requests], privacy: { mode: 'local', sees: sees(search, requests.length) } };
  });
}

/** What local search has cost, and shows. */
export function localMode(encoder: QuestionEncoder): PrivacyMode {
  const search = opened.get(encoder)!;
  const { bytes, packs } = search;
  return {
    mode: 'local',
    onceBytes: bytes,
    upBytes: 0,
    downBytes: packs > 0 ? undefined : 0,
    sees: sees(search, packs),
  };
}

/** What the host sees where a search fetches so many packs, or at most so many. */
function sees({ packs, passages }: LocalSearch, fetched: number): string {
  if (fetched === 0) return NOTHING;
  const each = Math.round(passages / packs);
  return `which of ${packs} packs of some ${each} passages were fetched: what the question is about, and nothing else of it`;
}
