import assert from 'node:assert/strict';
import test from 'node:test';
import { modelCache } from '../dist/index.js';
import { openFileCache } from '../dist/weights/file-cache.js';
import { noteModel } from '../dist/weights/old-models.js';
import { cachesInMemory, someBytes } from './helpers.mjs';

const sum = (letter) => letter.repeat(64);

/** A manifest whose config, tokenizer and q8 weights are those of the letters. */
function model(name, [config, tokenizer, q8, f16]) {
  const file = (letter) => ({ url: `https://server.test/${letter}`, bytes: 10, sha256: sum(letter) });
  const weights = { q8: file(q8), ...(f16 ? { f16: file(f16) } : {}) };
  return { name, fingerprint: sum(name[0]), encoder: { config: file(config), tokenizer: file(tokenizer) }, weights };
}

/** Two models, of which the first is used later and the files of `letters` are here. */
async function kept(t, letters) {
  globalThis.caches = cachesInMemory();
  t.after(() => delete globalThis.caches);
  const cache = await openFileCache();
  for (const letter of letters) await cache.write(sum(letter), someBytes(10), 10);
  const [first, second] = [model('one', 'abcd'), model('two', 'abx')];
  await noteModel('https://one.test/', first, 2000);
  await noteModel('https://two.test/', second, 1000);
  return { first, second, here: async (letter) => (await cache.read(sum(letter))) !== undefined };
}

test('the models that are kept are listed with their size, the last used first', async (t) => {
  const { first, second } = await kept(t, 'abcx');
  assert.deepEqual(await modelCache.list(), [
    { fingerprint: first.fingerprint, name: 'one', bytes: 30, lastUsed: new Date(2000) },
    { fingerprint: second.fingerprint, name: 'two', bytes: 30, lastUsed: new Date(1000) },
  ]);
});

test('a server\'s own encoder and its small one, of one fingerprint, are both listed, and deleted together', async (t) => {
  const { first } = await kept(t, 'abcdefx');
  const small = { ...model('one, small', 'efa'), fingerprint: first.fingerprint };
  await noteModel('https://one.test/small', small, 3000);
  const listed = async () => (await modelCache.list()).map(({ name, bytes }) => [name, bytes]);
  assert.deepEqual(await listed(), [['one, small', 30], ['one', 40], ['two', 30]]);
  // The same one at another address.
  await noteModel('https://other.test/', first, 2500);
  assert.deepEqual(await listed(), [['one, small', 30], ['one', 40], ['two', 30]]);
  assert.equal(await modelCache.delete(first.fingerprint), true);
  assert.deepEqual(await listed(), [['two', 30]]);
});

test('a model of which nothing is here yet is not listed', async (t) => {
  await kept(t, 'x');
  await noteModel('https://one.test/next', model('next', 'uvw'), 3000);
  assert.deepEqual((await modelCache.list()).map(({ name }) => name), ['two']);
});

test('a model is here when everything is that loading it takes', async (t) => {
  const { first, second } = await kept(t, 'abc');
  assert.equal(await modelCache.has(first), true);
  assert.equal(await modelCache.has(first, 'f16'), false);
  assert.equal(await modelCache.has(second), false);
  await assert.rejects(modelCache.has(second, 'f32'), { code: 'no_weights' });
});

test('of the two forms of a tokenizer the binary one is what loading takes', async (t) => {
  const { first, here } = await kept(t, 'abcv');
  const manifest = { ...first, encoder: { ...first.encoder, vocabulary: { url: 'https://server.test/v', bytes: 10, sha256: sum('v') } } };
  assert.equal(await modelCache.has(manifest), true);
  await noteModel('https://one.test/', manifest);
  await modelCache.delete(first.fingerprint);
  assert.deepEqual(await Promise.all([...'av'].map(here)), [true, false]);
  assert.equal(await modelCache.has(manifest), false);
});

test('one model is deleted without the files that another shares with it', async (t) => {
  const { first, second, here } = await kept(t, 'abcdx');
  assert.equal(await modelCache.delete(first.fingerprint), true);
  assert.equal(await modelCache.delete(first.fingerprint), false);
  assert.deepEqual((await modelCache.list()).map(({ name }) => name), ['two']);
  assert.deepEqual(await Promise.all([...'abcdx'].map(here)), [true, true, false, false, true]);
  assert.equal(await modelCache.delete(second.fingerprint), true);
  assert.equal(await here('a'), false);
});

test('where storage is blocked there are no models', async (t) => {
  globalThis.caches = { open: async () => { throw new DOMException('no', 'SecurityError'); } };
  t.after(() => delete globalThis.caches);
  assert.deepEqual(await modelCache.list(), []);
  assert.equal(await modelCache.has(model('one', 'abc')), false);
  assert.equal(await modelCache.delete(sum('o')), false);
});

test('the browser is asked to keep models, where it can be', async (t) => {
  const original = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  t.after(() => (original ? Object.defineProperty(globalThis, 'navigator', original) : delete globalThis.navigator));
  Object.defineProperty(globalThis, 'navigator', { value: {}, configurable: true });
  assert.equal(await modelCache.persist(), false);
  Object.defineProperty(globalThis, 'navigator', { value: { storage: { persist: async () => true } }, configurable: true });
  assert.equal(await modelCache.persist(), true);
});
