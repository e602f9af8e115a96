import type { SentRequest } from '../types/search-result.js';
import { vectorToBase64 } from './base64.js';

/** Builds the one request of a search: the vector, `k` and the model's fingerprint, nothing else. */
export function buildSearchRequest(
  url: string,
  vector: Float32Array,
  k: number,
  fingerprint: string,
  extraHeaders: Record<string, string>,
): SentRequest {
  const body = JSON.stringify({ vector: vectorToBase64(vector), k, model: fingerprint });
  return {
    method: 'POST',
    url,
    headers: { ...extraHeaders, 'content-type': 'application/json' },
    body,
    // Base64, digits and hex only: one byte a character.
    bytes: body.length,
  };
}
