/**
 * Svelte 4 and 5: {@link createSearch} is a store.
 *
 * @packageDocumentation
 */
export { getSearchClient, setSearchClient } from './context.js';
export type { SearchState, SearchStore } from './create-search.js';
export { createSearch } from './create-search.js';
