import type { ModelManifest } from '../types/manifest.js';
import { fileKey } from './file-cache.js';
import { keyOf, SOURCES, type Source } from './manifest-note.js';
import { openCache } from './open-cache.js';

/** A model that no page of this origin has loaded for so long goes, in milliseconds: 90 days. */
const LONGEST_UNUSED = 90 * 24 * 3600 * 1000;

/** Notes which files the model of this address has, in the place of those that it had before. Never throws. */
export async function noteModel(address: string, manifest: ModelManifest, now = Date.now()): Promise<void> {
  try {
    const files = [...Object.values(manifest.encoder), ...Object.values(manifest.weights)].map(({ sha256 }) => sha256);
    const source: Source = { files, usedAt: now, manifest };
    await (await openCache())?.put(await keyOf(address), new Response(JSON.stringify(source)));
  } catch {
    // A full cache.
  }
}

/** A note and the key that it is kept under. */
export interface Note extends Source {
  key: string;
}

/** All notes of this origin. */
export async function readNotes(cache: Cache): Promise<Note[]> {
  const keys = (await cache.keys()).map((request) => request.url).filter((key) => key.startsWith(SOURCES));
  const read = async (key: string): Promise<Note[]> => {
    const source = (await (await cache.match(key))?.json()) as Source | undefined;
    return source ? [{ key, ...source }] : [];
  };
  return (await Promise.all(keys.map(read))).flat();
}

/** Removes files that none of these notes names. */
export async function removeUnnamed(cache: Cache, notes: Note[]): Promise<void> {
  const named = new Set(notes.flatMap(({ files }) => files.map(fileKey)));
  const keys = (await cache.keys()).map((request) => request.url);
  const old = keys.filter((key) => !key.startsWith(SOURCES) && !named.has(key));
  await Promise.all(old.map((key) => cache.delete(key)));
}

/** Removes the files that belong to no noted model from the cache, and what was not used for long. Never throws. */
export async function evictOldModels(now = Date.now()): Promise<void> {
  try {
    const cache = await openCache();
    if (!cache) return;
    const notes = await readNotes(cache);
    const isOld = ({ usedAt }: Note) => now - usedAt > LONGEST_UNUSED;
    await Promise.all(notes.filter(isOld).map(({ key }) => cache.delete(key)));
    const left = notes.filter((note) => !isOld(note));
    // Without a note nothing tells old files from new ones.
    if (left.length > 0) await removeUnnamed(cache, left);
  } catch {
    // As above: a cache that cannot be tidied is a full cache.
  }
}
