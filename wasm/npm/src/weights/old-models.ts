import type { ModelManifest } from '../types/manifest.js';
import { CACHE_NAME, fileKey } from './file-cache.js';
import { sha256Hex } from './sha256.js';

/** A model that no page of this origin has loaded for so long goes, in milliseconds: 90 days. */
const LONGEST_UNUSED = 90 * 24 * 3600 * 1000;
const SOURCES = 'https://dpr-web.invalid/sources/';

/** What the cache keeps for the address of a manifest. */
interface Source {
  /** SHA-256 of the files that the manifest names, in all formats. */
  files: string[];
  usedAt: number;
}

/** Notes which files the model of this address has, in the place of those that it had before. Never throws. */
export async function noteModel(address: string, manifest: ModelManifest, now = Date.now()): Promise<void> {
  try {
    const { config, tokenizer } = manifest.encoder;
    const files = [config, tokenizer, ...Object.values(manifest.weights)].map((file) => file.sha256);
    const source: Source = { files, usedAt: now };
    const key = SOURCES + (await sha256Hex(new TextEncoder().encode(address)));
    await (await globalThis.caches.open(CACHE_NAME)).put(key, Response.json(source));
  } catch {
    // No Cache API, or a blocked or full one.
  }
}

/** Removes the files that belong to no noted model from the cache, and what was not used for long. Never throws. */
export async function evictOldModels(now = Date.now()): Promise<void> {
  try {
    const cache = await globalThis.caches.open(CACHE_NAME);
    const keys = (await cache.keys()).map((request) => request.url);
    const named = new Set<string>();
    for (const key of keys.filter((key) => key.startsWith(SOURCES))) {
      const source = (await (await cache.match(key))?.json()) as Source | undefined;
      if (!source || now - source.usedAt > LONGEST_UNUSED) await cache.delete(key);
      else for (const sha256 of source.files) named.add(fileKey(sha256));
    }
    // Without a note nothing tells old files from new ones.
    if (named.size === 0) return;
    const old = keys.filter((key) => !key.startsWith(SOURCES) && !named.has(key));
    await Promise.all(old.map((key) => cache.delete(key)));
  } catch {
    // As above: a cache that cannot be tidied is a full cache.
  }
}
