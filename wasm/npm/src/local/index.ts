/**
 * Search without a server: {@link LocalSearch} downloads an index that `dpr index export-static` has written to any
 * file host, and searches it in the page. Once it is open, nothing is requested from anywhere.
 *
 * @packageDocumentation
 */
export type { ExpectedIndex } from '../types/expected-model.js';
export type { LocalOptions, LocalResult, LocalSearchOptions, LocalTimings } from './local-options.js';
export { LocalSearch } from './local-search.js';
