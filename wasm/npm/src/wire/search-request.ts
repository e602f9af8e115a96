import type { PassageFilter } from '../types/options.js';
import type { SentRequest } from '../types/search-result.js';
import { vectorToBase64 } from './base64.js';

/** Builds the one request of a search: the vector, `k`, the model's fingerprint and a filter if one is given. */
export function buildSearchRequest(
  url: string,
  vector: Float32Array,
  k: number,
  fingerprint: string,
  extraHeaders: Record<string, string>,
  filter?: PassageFilter,
): SentRequest {
  // A filter that is left out leaves no trace.
  const body = JSON.stringify({ vector: vectorToBase64(vector), k, model: fingerprint, filter });
  return {
    method: 'POST',
    url,
    headers: { ...extraHeaders, 'content-type': 'application/json' },
    body,
    bytes: new TextEncoder().encode(body).length,
  };
}
