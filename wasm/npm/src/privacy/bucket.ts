import type { QuestionEncoder } from '../encoder/question-encoder.js';
import type { BucketSearch } from '../local/bucket-search.js';
import type { ConnectOptions, SearchOptions } from '../types/options.js';
import type { PrivacyMode, PrivacyOptions } from '../types/privacy.js';
import type { SearchResult } from '../types/search-result.js';
import { loaded } from '../wire/loaded.js';
import { deviceKey } from './device-key.js';
import type { PrivateParts } from './parts.js';
import { spent } from './spent.js';

type BucketOptions = Extract<PrivacyOptions, { mode: 'bucket' }>;

const DEFAULT_PROBES = 4;

/** The static index that each question encoder belongs to. */
const opened = new WeakMap<QuestionEncoder, BucketSearch>();

/** Opens a static index for bucket search and returns its question encoder; disposing that ends both. */
export async function openBuckets(source: URL, options: ConnectOptions): Promise<QuestionEncoder> {
  const { BucketSearch } = await loaded(import('../local/bucket-search.js'));
  options.signal?.throwIfAborted();
  const search = await BucketSearch.open(source, options);
  const { encoder } = search;
  try {
    search.requirePlan(planOf(Object(options.privacy) as BucketOptions));
  } catch (error) {
    search.dispose();
    throw error;
  }
  opened.set(encoder, search);
  // The client knows the encoder alone.
  encoder.dispose = () => search.dispose();
  return encoder;
}

/** Searches once. */
export function searchBuckets([, , , , , ready, announced]: PrivateParts, text: string, k: number, options: SearchOptions, asked: BucketOptions): Promise<SearchResult> {
  return ready(options, async (encoder, signal, start) => {
    const search = opened.get(encoder)!;
    const plan = planOf(asked);
    search.requirePlan(plan);
    const { hits, timings, requests } = await search.search(text, { ...plan, k, key: deviceKey('device'), signal }, (request, sent) =>
      announced(request, signal, sent),
    );
    return { hits, timings: spent(timings, start), request: requests[0], requests: [...requests], privacy: { mode: 'bucket', sees: search.sees(plan) } };
  });
}

/** What bucket search has cost before the first question, and what it shows. */
export function bucketMode(encoder: QuestionEncoder, asked: BucketOptions): PrivacyMode {
  const search = opened.get(encoder)!;
  return { mode: 'bucket', onceBytes: search.bytes, upBytes: 0, downBytes: undefined, sees: search.sees(planOf(asked)) };
}

function planOf({ probes = DEFAULT_PROBES, decoys = probes, expectIndex }: BucketOptions) {
  return { probes, decoys, expectIndex };
}
