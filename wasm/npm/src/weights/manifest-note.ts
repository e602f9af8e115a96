import type { ModelManifest } from '../types/manifest.js';
import { openCache } from './open-cache.js';
import { sha256Hex } from './sha256.js';

/** The beginning of the keys of notes. */
export const SOURCES = 'https://dpr-web.invalid/sources/';

/** What the cache keeps for the address of a manifest. */
export interface Source {
  /** SHA-256 of the files that the manifest names, in all formats. */
  files: string[];
  usedAt: number;
  /** The manifest itself, for when its address does not answer. Notes of earlier releases have none. */
  manifest?: ModelManifest;
}

/** The key of the note of an address. */
export async function keyOf(address: string): Promise<string> {
  return SOURCES + (await sha256Hex(new TextEncoder().encode(address)));
}

/** The manifest that this address had the last time. Not checked; `undefined` if there is none. Never throws. */
export async function recallManifest(address: string): Promise<unknown> {
  try {
    const note = await (await openCache())?.match(await keyOf(address));
    return ((await note?.json()) as Source | undefined)?.manifest;
  } catch {
    return undefined;
  }
}
