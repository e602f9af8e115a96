'use client';
/**
 * React 18 and 19: {@link SearchProvider}, {@link useSearch}, {@link useSuspenseSearch}.
 *
 * @packageDocumentation
 */
export type { SearchProviderProps } from './provider.js';
export { SearchProvider, useSearchClient } from './provider.js';
export type { SearchState } from './use-search.js';
export { useSearch } from './use-search.js';
export { useSuspenseSearch } from './use-suspense-search.js';
