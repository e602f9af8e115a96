import { SearchClient } from '../client/search-client.js';
import type { ConnectOptions } from '../types/options.js';

/**
 * A client that loads nothing before somebody searches. Where pages are rendered there is no document to resolve a
 * relative address against, and nobody searches: any will do.
 */
export function createClient(url: string | URL, options?: ConnectOptions): SearchClient {
  return SearchClient.create(globalThis.document ? url : new URL(url, 'http://dpr-web.invalid/'), options);
}
