import { PRIVATE_CACHE } from './file-cache.js';
import { CACHE_NAME } from './open-cache.js';

/**
 * Deletes every model file this package keeps for this origin, and the files of private modes. Where the browser blocks
 * storage there is nothing to delete.
 *
 * @example
 * button.onclick = () => clearModelCache();
 */
export async function clearModelCache(): Promise<void> {
  try {
    const { caches } = globalThis;
    await caches?.delete(CACHE_NAME);
    for (const name of (await caches?.keys()) ?? []) if (name.startsWith(PRIVATE_CACHE)) await caches.delete(name);
  } catch {
    // A SecurityError: storage is blocked, so nothing was kept.
  }
}
