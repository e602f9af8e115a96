import assert from 'node:assert/strict';
import test from 'node:test';
import { QuestionEncoder } from '../dist/index.js';
import { fileKey, openFileCache } from '../dist/weights/file-cache.js';
import { evictOldModels, noteModel } from '../dist/weights/old-models.js';
import { FakeWorker, tinyModel } from './fake-worker.mjs';
import { cachesInMemory, fakeFetch, fileOf, someBytes } from './helpers.mjs';

const DAY = 24 * 3600 * 1000;
const sum = (letter) => letter.repeat(64);
const manifest = (...letters) => {
  const [config, tokenizer, ...weights] = letters.map((letter) => ({ sha256: sum(letter) }));
  return { encoder: { config, tokenizer }, weights: { q8: weights[0], f16: weights[1] ?? weights[0] } };
};

/** A cache with a file for each letter; the letters that are left. */
async function withFiles(t, letters) {
  const { map, ...caches } = cachesInMemory();
  globalThis.caches = caches;
  t.after(() => delete globalThis.caches);
  const cache = await openFileCache();
  for (const letter of letters) await cache.write(sum(letter), someBytes(10), 10);
  return () => [...letters].filter((letter) => map.has(fileKey(sum(letter)))).join('');
}

test('files of an address\'s earlier model go, those of its present one stay in all formats', async (t) => {
  const left = await withFiles(t, 'abcdexyz');
  await noteModel('https://server.test/v1/model', manifest('a', 'b', 'c', 'd'));
  await noteModel('https://server.test/v1/model', manifest('a', 'x', 'y', 'z'));
  await evictOldModels();
  assert.equal(left(), 'axyz');
});

test('files of other addresses stay until nobody has used them for 90 days', async (t) => {
  const left = await withFiles(t, 'abcdef');
  await noteModel('https://one.test/v1/model', manifest('a', 'b', 'c'), 0);
  await noteModel('https://two.test/v1/model', manifest('d', 'b', 'e'), 60 * DAY);
  await evictOldModels(90 * DAY);
  assert.equal(left(), 'abcde');
  await evictOldModels(91 * DAY);
  assert.equal(left(), 'bde');
});

test('without a note nothing is removed', async (t) => {
  const left = await withFiles(t, 'abc');
  await evictOldModels();
  assert.equal(left(), 'abc');
});

test('a missing Cache API is no error', async () => {
  await noteModel('https://server.test/v1/model', manifest('a', 'b', 'c'));
  await evictOldModels();
});

for (const keepOldModels of [false, true]) {
  test(`loading ${keepOldModels ? 'keeps' : 'removes'} old models with keepOldModels: ${keepOldModels}`, async (t) => {
    const left = await withFiles(t, 'a');
    const { manifest, restore } = tinyModel();
    t.after(restore);
    const options = { device: 'cpu', baseUrl: 'https://server.test/', createWorker: () => new FakeWorker({}), keepOldModels };
    (await QuestionEncoder.load(manifest, options)).dispose();
    for (let turn = 0; turn < 100 && left() !== ''; turn++) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(left(), keepOldModels ? 'a' : '');
    // What was just loaded is there.
    assert.ok(await (await openFileCache()).read(manifest.weights.q8.sha256));
  });
}

test('a second manifest object leaves the files of the first, and no note depends on the question in the page\'s address', async (t) => {
  const left = await withFiles(t, 'a');
  const load = async (config, query, most) => {
    const { manifest, restore } = tinyModel();
    t.after(restore);
    const files = globalThis.fetch;
    const server = fakeFetch((url, init) => files(url.replace(config, 'config.json'), init));
    t.after(server.restore);
    manifest.encoder.config.url = config;
    const worker = () => new FakeWorker({});
    (await QuestionEncoder.load(manifest, { device: 'cpu', baseUrl: `https://server.test/${query}`, createWorker: worker })).dispose();
    const cache = await globalThis.caches.open();
    const notes = async () => (await cache.keys()).map(({ url }) => url).filter((url) => url.includes('/sources/'));
    for (let turn = 0; turn < 100 && (left() !== '' || (await notes()).length < 2 * most); turn++) await new Promise((resolve) => setTimeout(resolve, 5));
    return notes();
  };
  // One for what has been loaded, one for what is being loaded.
  const one = await load('one/config.json', '?q=who', 1);
  assert.equal(one.length, 2);
  assert.deepEqual(await load('one/config.json', '?q=what', 1), one);
  assert.equal((await load('two/config.json', '?q=who', 2)).length, 4);
});

test('a model that is being loaded keeps its files while another that has started removes old ones', async (t) => {
  const left = await withFiles(t, 'a');
  const { manifest: small, restore } = tinyModel();
  t.after(restore);
  const config = fileOf(someBytes(40), 'large.json');
  const large = { ...small, encoder: { ...small.encoder, config }, weights: { q8: fileOf(someBytes(90), 'large.q8') } };
  let arrive;
  const weights = new Promise((resolve) => (arrive = resolve));
  const files = globalThis.fetch;
  const server = fakeFetch(async (url, init) => {
    if (url.endsWith('large.json')) return new Response(someBytes(40));
    return url.endsWith('large.q8') ? weights : files(url, init);
  });
  t.after(server.restore);
  const options = { device: 'cpu', baseUrl: 'https://server.test/', createWorker: () => new FakeWorker({}) };
  const loading = QuestionEncoder.load(large, options);
  const cache = await openFileCache();
  const isHere = async ({ sha256 }) => (await cache.read(sha256)) !== undefined;
  for (let turn = 0; turn < 100 && !(await isHere(config)); turn++) await new Promise((resolve) => setTimeout(resolve, 5));
  (await QuestionEncoder.load(small, options)).dispose();
  for (let turn = 0; turn < 100 && left() !== ''; turn++) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(left(), '', 'what nobody uses is gone');
  assert.equal(await isHere(config), true);
  arrive(new Response(someBytes(90)));
  (await loading).dispose();
});

test('a new model that cannot be loaded leaves the one before it, with its files and its note', async (t) => {
  await withFiles(t, '');
  const { manifest, restore } = tinyModel();
  t.after(restore);
  const options = { device: 'cpu', retry: 0, createWorker: () => new FakeWorker({}) };
  const files = globalThis.fetch;
  let served = manifest;
  const server = fakeFetch((url, init) => {
    if (url.includes('gone')) return new Response('', { status: 404 });
    if (!url.endsWith('/v1/model')) return files(`https://server.test/${url.split('/').pop()}`, init);
    if (!served) throw new TypeError('network error');
    return Response.json(served);
  });
  t.after(server.restore);
  const load = () => QuestionEncoder.load('https://server.test/v1/model', options);
  (await load()).dispose();
  served = { ...manifest, fingerprint: 'e'.repeat(64), weights: { q8: fileOf(someBytes(99), 'gone.q8') } };
  await assert.rejects(load(), { name: 'DownloadError', status: 404 });
  await evictOldModels();
  // Without a network.
  served = undefined;
  const encoder = await load();
  assert.equal(encoder.model.fingerprint, manifest.fingerprint);
  encoder.dispose();
});
