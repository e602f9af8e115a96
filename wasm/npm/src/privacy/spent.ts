import type { SearchTimings } from '../types/search-result.js';

type InPage = Omit<SearchTimings, 'tookMs'>;

/** What a search in the page took since `start`: what it waited for its turn counts as encoding. No server took any. */
export const spent = ({ encodeMs, searchMs }: InPage, start: number): SearchTimings => ({
  encodeMs: Math.max(encodeMs, performance.now() - start - searchMs),
  searchMs,
  tookMs: 0,
});
