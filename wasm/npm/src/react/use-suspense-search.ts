import type { SearchClientLike } from '../types/client-like.js';
import type { SearchOptions } from '../types/options.js';
import type { SearchResult } from '../types/search-result.js';
import { useSearchClient } from './provider.js';

/** How many answers of a client are kept; more where more are shown at once. */
const MOST_KEPT = 20;
/** How long an answer that was rendered counts as shown, in milliseconds: React renders a boundary's parts again at once. */
const SHOWN = 10_000;
/** How long an error stays once it was rendered, in milliseconds: nobody asks for another try in less. */
const ERROR_KEPT = 200;
/** How long an error waits to be rendered, in milliseconds: the page may show another question by then. */
const ERROR_UNSEEN = 1000;

interface Entry {
  result?: SearchResult;
  error?: unknown;
  promise: Promise<void>;
  renderedAt: number;
}

/** The result for a blank question, which is not searched. */
const NOTHING: SearchResult = {
  hits: [],
  timings: { encodeMs: 0, searchMs: 0, tookMs: 0 },
  request: undefined,
  requests: [],
  privacy: { mode: 'plain', sees: 'nothing: no request was made' },
};

/** React forgets what a suspended component had, so answers are kept beside it. */
const answers = new WeakMap<SearchClientLike, Map<string, Entry>>();

/**
 * The passages nearest to the question. Suspends until they are here; an error goes to the nearest error boundary, and
 * what is shown there again is searched again. A blank question finds nothing, and is not searched. On a server it
 * throws, so that the boundary's fallback is rendered and the browser searches.
 *
 * Every new question is searched at once, without a debounce: give it what `useDeferredValue` returns, or what was
 * submitted.
 *
 * @example
 * function Passages({ question }) {
 *   const { hits } = useSuspenseSearch(question, { k: 5 });
 *   return <ul>{hits.map((hit) => <li key={hit.id}>{hit.text}</li>)}</ul>;
 * }
 * <Suspense fallback={<p>Searching…</p>}><Passages question={useDeferredValue(question)} /></Suspense>
 */
export function useSuspenseSearch(question: string, options: Omit<SearchOptions, 'signal'> = {}): SearchResult {
  const client = useSearchClient();
  if (!globalThis.document) throw new Error('useSuspenseSearch searches in the browser only');
  if (!question.trim()) return NOTHING;
  const key = JSON.stringify([question, options]);
  const known = answers.get(client) ?? new Map<string, Entry>();
  answers.set(client, known);
  const entry = known.get(key) ?? begin(client, question, options, known, key);
  entry.renderedAt = performance.now();
  if (entry.result) return entry.result;
  if ('error' in entry) {
    // Not at once: React renders again before it shows a boundary.
    forgetLater(known, key, entry, ERROR_KEPT);
    throw entry.error;
  }
  // React waits for it, and renders again.
  throw entry.promise;
}

function begin(
  client: SearchClientLike,
  question: string,
  options: SearchOptions,
  known: Map<string, Entry>,
  key: string,
): Entry {
  const promise = client.search(question, options).then(
    (result) => {
      entry.result = result;
    },
    (error: unknown) => {
      entry.error = error;
      forgetLater(known, key, entry, ERROR_UNSEEN);
    },
  );
  const now = performance.now();
  const entry: Entry = { promise, renderedAt: now };
  // One that a boundary still shows or waits for would be searched again at once, and take the place of another.
  for (const [old, { result, renderedAt }] of known) {
    if (known.size < MOST_KEPT) break;
    if (result && now - renderedAt > SHOWN) known.delete(old);
  }
  known.set(key, entry);
  return entry;
}

/** Deletes an entry after so many milliseconds, unless a later search of the same question has taken its place. */
function forgetLater(known: Map<string, Entry>, key: string, entry: Entry, milliseconds: number): void {
  setTimeout(() => known.get(key) === entry && known.delete(key), milliseconds);
}
