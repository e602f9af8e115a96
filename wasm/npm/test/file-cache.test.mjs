import assert from 'node:assert/strict';
import test from 'node:test';
import { clearModelCache } from '../dist/index.js';
import { openFileCache } from '../dist/weights/file-cache.js';
import { cachesInMemory, someBytes } from './helpers.mjs';

const SHA = 'a'.repeat(64);

function withCaches(caches, body) {
  globalThis.caches = caches;
  return body().finally(() => delete globalThis.caches);
}

test('what is written is read back, and removed', () => {
  const caches = cachesInMemory();
  return withCaches(caches, async () => {
    const cache = await openFileCache();
    await cache.write(SHA, someBytes(100), 100);
    assert.deepEqual(await cache.read(SHA), someBytes(100));
    assert.equal(await cache.read('b'.repeat(64)), undefined);
    await cache.remove(SHA);
    assert.equal(await cache.read(SHA), undefined);
    await cache.write(SHA, someBytes(100), 100);
    await clearModelCache();
    assert.equal(caches.map.size, 0);
  });
});

test('a full disk is no error', () =>
  withCaches(cachesInMemory(() => { throw new DOMException('full', 'QuotaExceededError'); }), async () => {
    await (await openFileCache()).write(SHA, someBytes(10), 10);
  }));

for (const [name, caches] of [['missing', undefined], ['blocked', { open: async () => { throw new DOMException('no', 'SecurityError'); } }]]) {
  test(`a ${name} Cache API keeps nothing and works`, () =>
    withCaches(caches, async () => {
      const cache = await openFileCache();
      await cache.write(SHA, someBytes(10), 10);
      assert.equal(await cache.read(SHA), undefined);
    }));
}

test('clearing a cache that the browser blocks is no error', () => {
  const blocked = () => { throw new DOMException('no', 'SecurityError'); };
  return withCaches({ open: blocked, delete: blocked }, () => clearModelCache());
});
