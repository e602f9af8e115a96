import assert from 'node:assert/strict';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import esbuild from 'esbuild';
import { QuestionEncoder } from 'dpr-web';
import { keepOffline } from 'dpr-web/service-worker';
import { FakeWorker, tinyModel } from '../fake-worker.mjs';
import { fakeFetch } from '../helpers.mjs';

const SITE = 'https://site.test/';
const ASSETS = ['/assets/index-1.js', '/assets/worker-cpu-1.js', '/assets/cpu-1.wasm'];

/** A site with the tiny model, in a service worker, until `t` ends. `site.isOffline` takes the network away. */
function site(t) {
  const { manifest, restore } = tinyModel();
  const files = globalThis.fetch;
  const site = { isOffline: false, manifest, missing: undefined };
  const server = fakeFetch((input, init) => {
    const { href, pathname, search } = new URL(input);
    if (site.isOffline) throw new TypeError('network error');
    if (pathname === site.missing) return new Response('', { status: 404 });
    if (href === `${SITE}v1/model`) return Response.json(site.manifest);
    if (href.startsWith('https://server.test/')) return files(href, init);
    return new Response(`${pathname}${search}`);
  });
  const named = new Map();
  const open = (name) => {
    if (!named.has(name)) named.set(name, new Map());
    const map = named.get(name);
    return {
      match: async (key) => map.get(String(key))?.clone(),
      put: async (key, value) => void map.set(String(key), value),
      delete: async (key) => map.delete(String(key)),
      keys: async () => [...map.keys()].map((url) => ({ url })),
    };
  };
  globalThis.caches = { has: async (name) => named.has(name), open: async (name) => open(name), delete: async (name) => named.delete(name), keys: async () => [...named.keys()] };
  globalThis.location = new URL('/sw.js', SITE);
  // Relative to the server that the model's files lie on.
  for (const file of [manifest.encoder.config, manifest.encoder.tokenizer, ...Object.values(manifest.weights)]) file.url = `https://server.test/${file.url}`;
  t.after(() => {
    delete globalThis.caches;
    delete globalThis.location;
    server.restore();
    restore();
  });
  const kept = () => [...named].flatMap(([, map]) => [...map.keys()]);
  const calls = server.calls;
  return Object.assign(site, { named, kept, calls });
}

/** What the service worker answers, or `undefined` when it leaves the request alone. */
function answer(files, path, { mode = 'cors', method = 'GET' } = {}) {
  let answered;
  const url = new URL(path, SITE).href;
  // No script can make a request of the mode `navigate`.
  files.fetch({ request: { url, mode, method, toString: () => url }, respondWith: (response) => (answered = response) });
  return answered?.then((response) => response.text());
}

test('after a visit, scripts, pages and the encoder are here without a network', async (t) => {
  const offline = site(t);
  const files = keepOffline({ assets: ASSETS, pages: ['/'], retry: 0 });
  await files.install();
  await files.activate();
  offline.isOffline = true;
  for (const path of ASSETS) assert.equal(await answer(files, path), path);
  assert.equal(await answer(files, '/', { mode: 'navigate' }), '/');
  assert.equal(await answer(files, '/?q=who', { mode: 'navigate' }), '/');
  const encoder = await QuestionEncoder.load(`${SITE}v1/model`, { device: 'cpu', createWorker: () => new FakeWorker({}), retry: 0 });
  assert.deepEqual([...(await encoder.encode('who'))], [3, 3, 3, 3]);
  encoder.dispose();
});

test('searches, their answers, the model and what is not listed are left alone', async (t) => {
  const offline = site(t);
  const files = keepOffline({ assets: ASSETS, pages: ['/'], retry: 0 });
  await files.install();
  for (const [path, how] of [
    ['/v1/search', { method: 'POST' }],
    ['/v1/search?q=who', {}],
    ['/v1/search/text', { method: 'POST' }],
    ['/v1/model', {}],
    ['/assets/index-1.js?other', {}],
    ['/assets/index-2.js', {}],
    ['/about', { mode: 'navigate' }],
    ['/', {}],
    ['/', { mode: 'navigate', method: 'POST' }],
  ]) {
    assert.equal(answer(files, path, how), undefined, path);
  }
  assert.ok(offline.calls.every(({ url }) => !url.includes('search')));
});

test('a page comes from the network, and its answer to a question in its address is not kept', async (t) => {
  const offline = site(t);
  const files = keepOffline({ assets: [], pages: ['/'], retry: 0 });
  await files.install();
  assert.equal(await answer(files, '/?q=who', { mode: 'navigate' }), '/?q=who');
  assert.ok(offline.kept().every((url) => !url.includes('who')), offline.kept().join(' '));
  offline.isOffline = true;
  assert.equal(await answer(files, '/?q=what', { mode: 'navigate' }), '/');
});

test('an install that fails takes nothing from the service worker that has the same list', async (t) => {
  const offline = site(t);
  const files = keepOffline({ assets: ASSETS, pages: ['/'], retry: 0 });
  await files.install();
  offline.missing = '/';
  await assert.rejects(keepOffline({ assets: ASSETS, pages: ['/'], retry: 0 }).install(), { name: 'DownloadError' });
  offline.isOffline = true;
  assert.equal(await answer(files, ASSETS[0]), ASSETS[0]);
  assert.equal(await answer(files, '/', { mode: 'navigate' }), '/');
});

test('a page that cannot be kept comes from the network all the same, and one that was redirected is kept as its content', async (t) => {
  const offline = site(t);
  const files = keepOffline({ assets: [], pages: ['/'], retry: 0 });
  const { fetch } = globalThis;
  globalThis.fetch = async (...asked) => Object.defineProperty(await fetch(...asked), 'redirected', { value: true });
  await files.install();
  globalThis.fetch = fetch;
  const [kept] = [...offline.named].find(([name]) => name.startsWith('dpr-web-assets:'))[1].values();
  assert.deepEqual([kept.redirected, await kept.clone().text()], [false, '/']);
  const { open } = globalThis.caches;
  globalThis.caches.open = async () => ({ put: () => Promise.reject(new Error('the disk is full')) });
  assert.equal(await answer(files, '/', { mode: 'navigate' }), '/');
  globalThis.caches.open = open;
});

test('where the cache cannot be opened, scripts and pages come from the network', async (t) => {
  const online = site(t);
  const files = keepOffline({ assets: ASSETS, pages: ['/'], retry: 0 });
  await files.install();
  globalThis.caches.open = async () => {
    throw new Error('the storage is broken');
  };
  assert.equal(await answer(files, ASSETS[0]), ASSETS[0]);
  assert.equal(await answer(files, '/', { mode: 'navigate' }), '/');
  // Without a network either, the error is that of the network.
  online.isOffline = true;
  await assert.rejects(answer(files, '/', { mode: 'navigate' }), { message: 'network error' });
});

test('another list and another model take the place of the earlier ones', async (t) => {
  const offline = site(t);
  await keepOffline({ assets: ASSETS, retry: 0 }).install();
  await globalThis.caches.open('of-the-page');
  const before = offline.kept();
  const q8 = offline.manifest.weights.q8;
  offline.manifest = { ...offline.manifest, fingerprint: 'e'.repeat(64), weights: { q8: offline.manifest.weights.f16 } };
  const next = keepOffline({ assets: ['/assets/index-2.js'], retry: 0 });
  await next.install();
  assert.ok(before.every((url) => offline.kept().includes(url)), 'the earlier page may still be open');
  await next.activate();
  const kept = offline.kept();
  assert.ok(!kept.some((url) => url.includes('index-1') || url.includes(q8.sha256)), kept.join(' '));
  assert.ok(kept.some((url) => url.endsWith('index-2.js')));
  assert.ok(offline.named.has('of-the-page'));
});

test('an installation that fails keeps no script and says what is missing', async (t) => {
  const offline = site(t);
  offline.missing = '/assets/cpu-1.wasm';
  await assert.rejects(keepOffline({ assets: ASSETS, retry: 0 }).install(), { name: 'DownloadError', message: /cpu-1\.wasm.*404/ });
  assert.ok(offline.kept().every((url) => !url.includes('assets')), offline.kept().join(' '));
  assert.throws(() => keepOffline({ assets: ['http://'] }), { name: 'OptionError' });
});

test('nothing of what service workers and workers run fetches a script by `import()`, which service workers refuse', async () => {
  for (const name of ['service-worker/index', 'worker/worker', 'worker/worker-shared']) {
    const entryPoints = [fileURLToPath(new URL(`../../dist/${name}.js`, import.meta.url))];
    const { metafile } = await esbuild.build({ entryPoints, outdir: 'out', bundle: true, format: 'esm', write: false, metafile: true, external: ['*/dpr_wasm.js'] });
    const found = Object.entries(metafile.inputs).filter(([, { imports }]) => imports.some(({ kind }) => kind === 'dynamic-import'));
    assert.deepEqual(found.map(([file]) => file), [], name);
  }
});
