import type { SearchTimings } from '../types/search-result.js';

/** What a search in the page took since `start`: what it waited for its turn counts as encoding. No server took any. */
export function spent({ encodeMs, searchMs }: Omit<SearchTimings, 'tookMs'>, start: number): SearchTimings {
  return { encodeMs: Math.max(encodeMs, performance.now() - start - searchMs), searchMs, tookMs: 0 };
}
