/** Name of the package's cache in the Cache API. */
export const CACHE_NAME = 'dpr-web-v1';

/** The Cache API's cache of this package; `undefined` where the browser has none or blocks storage. */
export async function openCache(): Promise<Cache | undefined> {
  try {
    return await globalThis.caches.open(CACHE_NAME);
  } catch {
    return undefined;
  }
}
