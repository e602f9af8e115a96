import type { SentRequest } from '../types/search-result.js';

/** Takes a request for a pack or bucket that is handed to `fetch`, and returns its answer. */
export type AnnouncePack = <T>(request: SentRequest, sent: Promise<T>) => Promise<T>;
