/**
 * Vue 3: a plugin, {@link createSearch}, and {@link useSearch}.
 *
 * @packageDocumentation
 */
export type { SearchPluginOptions } from './plugin.js';
export { createSearch, useSearchClient } from './plugin.js';
export type { UseSearch } from './use-search.js';
export { useSearch } from './use-search.js';
