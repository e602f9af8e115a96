import { createHash } from 'node:crypto';

/** A manifest entry for these bytes. */
export function fileOf(bytes, url = 'https://server.test/files/weights.bin') {
  return { url, bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
}

/** Deterministic bytes of a length that is no multiple of anything. */
export function someBytes(length) {
  return Uint8Array.from({ length }, (_, position) => (position * 31 + 7) & 0xff);
}

const realFetch = globalThis.fetch;
const fakes = [];

/**
 * Replaces `fetch` by `handler(url, init)` until `restore` is called. Records the calls. Of several, the latest one
 * answers; each is taken away alone, in any order.
 */
export function fakeFetch(handler) {
  const calls = [];
  const fake = async (url, init = {}) => {
    calls.push({ url: String(url), headers: new Headers(init.headers), init });
    init.signal?.throwIfAborted();
    return handler(String(url), init, calls.length);
  };
  fakes.push(fake);
  globalThis.fetch = fake;
  const restore = () => {
    const at = fakes.indexOf(fake);
    if (at >= 0) fakes.splice(at, 1);
    globalThis.fetch = fakes.at(-1) ?? realFetch;
  };
  return { calls, restore };
}

/** A body that delivers `bytes` and then breaks, as a lost connection does. */
export function brokenBody(bytes) {
  return new ReadableStream({
    pull(controller) {
      if (bytes) controller.enqueue(bytes);
      else controller.error(new TypeError('network error'));
      bytes = undefined;
    },
  });
}

/** A `FileCache` in memory. */
export function memoryCache(entries = {}) {
  const kept = new Map(Object.entries(entries));
  return {
    kept,
    read: async (sha256) => kept.get(sha256),
    write: async (sha256, bytes) => void kept.set(sha256, bytes),
    remove: async (sha256) => void kept.delete(sha256),
  };
}

/** The Cache API in memory; `put` may fail in the test's own way. */
export function cachesInMemory(put = (map, key, response) => map.set(key, response)) {
  const map = new Map();
  const cache = {
    match: async (key) => map.get(key)?.clone(),
    put: async (key, value) => put(map, key, value),
    delete: async (key) => map.delete(key),
    keys: async () => [...map.keys()].map((url) => ({ url })),
  };
  return { map, open: async () => cache, delete: async () => map.clear() };
}
