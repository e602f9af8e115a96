import type { PassageFilter } from '../types/options.js';
import type { SentRequest } from '../types/search-result.js';
import { vectorToBase64 } from './base64.js';

/**
 * Builds the one request of a search: one vector or several, `k`, the model's fingerprint and a filter if one is given.
 */
export function buildSearchRequest(
  url: string,
  vector: Float32Array | Float32Array[],
  k: number,
  fingerprint: string,
  filter?: PassageFilter,
): SentRequest {
  const vectors = Array.isArray(vector) ? { vectors: vector.map(vectorToBase64) } : { vector: vectorToBase64(vector) };
  // A filter that is left out leaves no trace.
  const body = JSON.stringify({ ...vectors, k, model: fingerprint, filter });
  return {
    method: 'POST',
    url,
    headers: { 'content-type': 'application/json' },
    body,
    bytes: new Blob([body]).size,
  };
}
