import assert from 'node:assert/strict';
import test from 'node:test';
import { QuestionEncoder } from '../dist/index.js';
import { noteIndex, recallIndex } from '../dist/local/index-note.js';
import { recallManifest } from '../dist/weights/manifest-note.js';
import { parseManifest } from '../dist/wire/parse-manifest.js';
import { FakeWorker, tinyModel, until } from './fake-worker.mjs';
import { cachesInMemory, fakeFetch } from './helpers.mjs';

/** What Safari 16.4, Chrome 100 or Firefox 114 lack and later ones have. */
const MISSING = [
  [URL, 'canParse'],
  [Response, 'json'],
  [AbortSignal, 'any'],
  [AbortSignal, 'timeout'],
  [Promise, 'withResolvers'],
  [Promise, 'try'],
  [Array, 'fromAsync'],
  [Object, 'groupBy'],
  [Array.prototype, 'toSorted'],
  [Array.prototype, 'with'],
  [ReadableStream.prototype, Symbol.asyncIterator],
];

/** A browser of the oldest releases that the README names. */
function old(t) {
  for (const [owner, name] of MISSING) {
    const original = Object.getOwnPropertyDescriptor(owner, name);
    if (!original) continue;
    delete owner[name];
    t.after(() => Object.defineProperty(owner, name, original));
  }
  const { map, ...caches } = cachesInMemory();
  globalThis.caches = caches;
  t.after(() => delete globalThis.caches);
}

test('a model loads in the oldest browsers, and its manifest is kept for when there is no network', async (t) => {
  old(t);
  const { manifest, restore } = tinyModel();
  t.after(restore);
  const files = globalThis.fetch;
  const url = 'https://server.test/v1/model';
  const server = fakeFetch((asked, init) => (asked === url ? new Response(JSON.stringify(manifest)) : files(`https://server.test/${asked.split('/').pop()}`, init)));
  t.after(server.restore);
  const encoder = await QuestionEncoder.load(url, { device: 'cpu', createWorker: () => new FakeWorker({}) });
  assert.deepEqual([...(await encoder.encode('abc'))], [3, 3, 3, 3]);
  encoder.dispose();
  let kept;
  await until(() => {
    void recallManifest(url).then((found) => (kept = found));
    return kept;
  });
  assert.equal(kept.fingerprint, manifest.fingerprint);
});

test('an address of a file that is none is a ManifestError in the oldest browsers', (t) => {
  old(t);
  const { manifest, restore } = tinyModel();
  t.after(restore);
  manifest.encoder.config.url = 'https://[';
  assert.throws(() => parseManifest(manifest, 'https://server.test/'), { name: 'ManifestError', message: /encoder\.config\.url.*is not an address: https:\/\/\[/ });
});

test('the note of a static index is kept in the oldest browsers', async (t) => {
  old(t);
  await noteIndex('https://site.test/dpr-static.json', ['a'.repeat(64)], '{"name":"site"}');
  assert.equal((await recallIndex('https://site.test/dpr-static.json')).text, '{"name":"site"}');
});
