import assert from 'node:assert/strict';
import test from 'node:test';
import { QuestionEncoder } from '../dist/index.js';
import { FakeWorker, tinyModel } from './fake-worker.mjs';
import { cachesInMemory, fakeFetch } from './helpers.mjs';

/** Web Locks of one origin. */
function fakeLocks() {
  const held = new Map();
  return {
    request(name, { signal }, work) {
      const turn = (held.get(name) ?? Promise.resolve()).then(() => {
        signal?.throwIfAborted();
        return work();
      });
      held.set(name, turn.catch(() => undefined));
      return turn;
    },
  };
}

/** A browser in which the tiny model's manifest and files are counted, `isOnline` while that holds. */
function browser(t, { caches = cachesInMemory(), ...given } = {}) {
  const locks = 'locks' in given ? given.locks : fakeLocks();
  const original = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  Object.defineProperty(globalThis, 'navigator', { value: { userAgent: 'test', locks }, configurable: true });
  globalThis.caches = caches;
  const { manifest, restore } = tinyModel();
  const files = globalThis.fetch;
  /** `weights`: what the answer with the weights waits for. */
  const state = { isOnline: true, weights: undefined };
  const { calls, restore: restoreServer } = fakeFetch(async (url, init) => {
    if (!state.isOnline) throw new TypeError('Failed to fetch');
    await new Promise((resolve) => setTimeout(resolve, 2));
    if (url.endsWith('w.q8')) await state.weights;
    if (url.endsWith('/v1/model')) return Response.json(manifest);
    return files(`https://server.test/${url.split('/').pop()}`, init);
  });
  t.after(() => {
    restoreServer();
    restore();
    delete globalThis.caches;
    if (original) Object.defineProperty(globalThis, 'navigator', original);
    else delete globalThis.navigator;
  });
  const load = (options = {}) =>
    QuestionEncoder.load('https://server.test/v1/model', { device: 'cpu', createWorker: () => new FakeWorker({}), retry: 0, ...options });
  const asked = () => calls.map(({ url }) => url.split('/').pop()).filter((name) => name !== 'model');
  return { load, calls, asked, state, manifest };
}

/** Stops a load when its weights have been asked for and have not come. */
async function stopDuringDownload(stop, { asked, state }) {
  let come;
  state.weights = new Promise((resolve) => (come = resolve));
  while (!asked().includes('w.q8')) await new Promise((resolve) => setTimeout(resolve, 1));
  stop.abort(new Error('enough'));
  come();
}

test('clients and tabs that want the same files at once download them once', async (t) => {
  const { load, asked } = browser(t);
  const encoders = await Promise.all([load(), load(), load()]);
  assert.deepEqual(asked().sort(), ['config.json', 'tokenizer.json', 'w.q8']);
  for (const encoder of encoders) {
    assert.equal((await encoder.encode('abc')).length, 4);
    encoder.dispose();
  }
});

test('when the one that downloads gives up, the next one downloads', async (t) => {
  const { load, asked, state } = browser(t);
  const stop = new AbortController();
  const first = load({ signal: stop.signal });
  const second = load();
  await Promise.all([stopDuringDownload(stop, { asked, state }), assert.rejects(first, { message: 'enough' })]);
  (await second).dispose();
  assert.ok(asked().includes('w.q8'));
});

for (const [what, given] of [
  ['the Cache API is blocked', { caches: { open: async () => { throw new DOMException('no', 'SecurityError'); } } }],
  ['there are no Web Locks', { locks: undefined }],
]) {
  test(`where ${what}, clients of one page that want the same files at once download them once`, async (t) => {
    const { load, asked } = browser(t, given);
    const encoders = await Promise.all([load(), load(), load()]);
    assert.deepEqual(asked().sort(), ['config.json', 'tokenizer.json', 'w.q8']);
    for (const encoder of encoders) {
      assert.equal((await encoder.encode('abc')).length, 4);
      encoder.dispose();
    }
  });

  test(`where ${what} and the one that downloads gives up, the next one downloads`, async (t) => {
    const { load, asked, state } = browser(t, given);
    const stop = new AbortController();
    const first = load({ signal: stop.signal });
    const [second, third] = [load(), load()];
    await Promise.all([stopDuringDownload(stop, { asked, state }), assert.rejects(first, { message: 'enough' })]);
    for (const encoder of await Promise.all([second, third])) encoder.dispose();
    assert.equal(asked().filter((name) => name === 'w.q8').length, 2);
  });
}

test('with everything in the cache a model loads offline, by the manifest of the last time', async (t) => {
  const { load, state, calls } = browser(t);
  (await load()).dispose();
  await new Promise((resolve) => setTimeout(resolve, 5));
  state.isOnline = false;
  const before = calls.length;
  const encoder = await load();
  assert.equal((await encoder.encode('abc')).length, 4);
  encoder.dispose();
  assert.equal(calls.length, before + 1);
});

test('offline without a first visit is a DownloadError, and so is a server that refuses', async (t) => {
  const { load, state } = browser(t);
  state.isOnline = false;
  await assert.rejects(load(), { name: 'DownloadError', code: 'download_failed' });
  const refusing = fakeFetch(() => new Response('', { status: 403 }));
  t.after(refusing.restore);
  await assert.rejects(load(), { name: 'DownloadError', status: 403 });
});

test('a refusal is not answered from the cache', async (t) => {
  const { load } = browser(t);
  (await load()).dispose();
  await new Promise((resolve) => setTimeout(resolve, 5));
  const refusing = fakeFetch(() => new Response('', { status: 401 }));
  t.after(refusing.restore);
  await assert.rejects(load(), { name: 'DownloadError', status: 401 });
});

for (const [what, caches, mode] of [
  ['keeps files, the HTTP cache does not keep them too', undefined, 'no-store'],
  ['is blocked, the HTTP cache may help', { open: async () => { throw new DOMException('no', 'SecurityError'); } }, 'default'],
]) {
  test(`where the Cache API ${what}`, async (t) => {
    const { load, calls } = browser(t, caches ? { caches } : {});
    (await load()).dispose();
    for (const { url, init } of calls.filter(({ url }) => !url.endsWith('model'))) assert.equal(init.cache, mode, url);
  });
}
