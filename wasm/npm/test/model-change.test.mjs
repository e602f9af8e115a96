import assert from 'node:assert/strict';
import test from 'node:test';
import { QuestionEncoder, SearchClient, modelCache } from '../dist/index.js';
import { FakeWorker, tinyModel, until, withStorage } from './fake-worker.mjs';
import { cachesInMemory, fakeFetch, fileOf, someBytes } from './helpers.mjs';

/** The tiny model as it is after update `turn`: another fingerprint and other weights. */
function updated(manifest, turn) {
  const q8 = fileOf(someBytes(100 + turn), `w.q8.${turn}`);
  return { ...manifest, fingerprint: turn.toString(16).padStart(64, '0'), name: `tiny ${turn}`, weights: { q8 } };
}

/**
 * A server whose model is `state.turn` updates old, and a client of it. It refuses vectors of other models, and everything
 * while `state.refuses` says so.
 */
async function served(t, options = {}) {
  const { manifest, restore } = tinyModel();
  const files = globalThis.fetch;
  const state = { turn: 0, refuses: () => undefined, searches: 0, manifests: 0, workers: [] };
  const current = () => (state.turn === 0 ? manifest : updated(manifest, state.turn));
  const { restore: restoreServer } = fakeFetch((url, init) => {
    const refused = state.refuses(url);
    if (refused) return refused;
    const name = url.split('/').pop();
    if (name === 'model') {
      state.manifests++;
      return Response.json(current());
    }
    if (name === 'search') {
      state.searches++;
      const { model, vectors } = JSON.parse(init.body);
      const lists = vectors ? { results: vectors.map(() => ({ hits: [] })) } : { hits: [] };
      if (model === current().fingerprint) return Response.json({ ...lists, took_ms: 1 });
      return Response.json({ error: { code: 'wrong_model', message: 'another model', fix: 'load it' } }, { status: 409 });
    }
    if (name.startsWith('w.q8.')) return new Response(someBytes(100 + Number(name.slice(5))));
    return files(`https://server.test/${name}`, init);
  });
  const createWorker = () => {
    state.workers.push(new FakeWorker({}));
    return state.workers.at(-1);
  };
  const client = await SearchClient.connect('https://server.test/', { device: 'cpu', createWorker, retry: 0, ...options });
  t.after(() => {
    client.dispose();
    restoreServer();
    restore();
  });
  return { client, state };
}

test('after an update of the server\'s model a search loads it, is sent once more, and is answered', async (t) => {
  const { client, state } = await served(t);
  const events = [];
  client.addEventListener('modelchange', ({ detail: { from, to } }) => events.push(`${from.name} to ${to.name}`));
  client.addEventListener('statechange', () => events.push(client.state));
  state.turn = 1;
  const { hits, request, requests } = await client.search('who');
  assert.deepEqual(hits, []);
  assert.equal(JSON.parse(request.body).model, client.model.fingerprint);
  assert.deepEqual([requests.length, requests.at(-1)], [2, request]);
  assert.deepEqual(events, ['loading', 'ready', 'tiny to tiny 1']);
  assert.equal(state.searches, 2);
  // The old one is gone.
  assert.deepEqual(state.workers.map(({ terminated }) => terminated), [true, false]);
  assert.equal((await client.searchMany(['who', 'what'])).length, 2);
  assert.equal(state.searches, 3);
});

test('searches that are refused together load the new model once, and all are answered', async (t) => {
  const { client, state } = await served(t);
  state.turn = 1;
  const found = await Promise.all(['a', 'bb', 'ccc'].map((text) => client.search(text)));
  assert.equal(found.length, 3);
  assert.equal(state.workers.length, 2);
  assert.equal(state.manifests, 2);
});

test('a question that waits for the old encoder is encoded by the new one', async (t) => {
  const { client, state } = await served(t);
  state.turn = 1;
  const counted = [client.search('who'), client.search('what'), client.encodeMany(['a', 'bb'])];
  await Promise.all(counted);
  assert.equal(state.workers.length, 2);
});

test('a server that refuses its own model is not asked for ever', async (t) => {
  const { client, state } = await served(t);
  state.refuses = (url) =>
    url.endsWith('/v1/search') && Response.json({ error: { code: 'wrong_model', message: 'no' } }, { status: 409 });
  await assert.rejects(client.search('who'), { code: 'wrong_model' });
  assert.equal(state.workers.length, 1);
  assert.equal(client.state, 'ready');
  state.refuses = () => undefined;
  assert.deepEqual((await client.search('who')).hits, []);
});

test('a new model that cannot be loaded is the search\'s error, and the next search tries again', async (t) => {
  const { client, state } = await served(t);
  state.turn = 1;
  state.refuses = (url) => url.includes('w.q8') && new Response('', { status: 404 });
  await assert.rejects(client.search('who'), { name: 'DownloadError', status: 404 });
  assert.equal(client.state, 'failed');
  assert.ok(!state.workers[0].terminated);
  state.refuses = () => undefined;
  assert.deepEqual((await client.search('who')).hits, []);
  assert.equal(client.model.name, 'tiny 1');
  assert.ok(state.workers[0].terminated);
});

test('a page that pins its model loads no other', async (t) => {
  const { client, state } = await served(t, { expect: { fingerprint: 'f'.repeat(64) } });
  state.turn = 1;
  await assert.rejects(client.search('who'), { name: 'ModelMismatchError' });
  assert.equal(state.workers.length, 1);
});

test('the signal of `connect`, which may have fired since, is not for later models', async (t) => {
  const stop = new AbortController();
  const { client, state } = await served(t, { signal: stop.signal });
  stop.abort(new Error('long ago'));
  state.turn = 1;
  assert.deepEqual((await client.search('who')).hits, []);
});

test('a month of updates leaves one model behind', async (t) => {
  const { map, ...caches } = cachesInMemory();
  globalThis.caches = caches;
  t.after(() => delete globalThis.caches);
  const storage = withStorage(t);
  const { client, state } = await served(t);
  for (state.turn = 1; state.turn <= 30; state.turn++) {
    storage.set(`dpr-web:device:${client.model.fingerprint} ${client.model.encoder.config.sha256}`, '{}');
    await client.search('who');
  }
  state.turn = 30;
  // Its three files, the note of the address, and that of what it began to load last.
  await until(() => map.size === 5);
  assert.deepEqual((await modelCache.list()).map(({ name }) => name), ['tiny 30']);
  assert.ok(await modelCache.has(client.model));
  assert.deepEqual([...storage.keys()], []);
});

test('an encoder whose model is still the same is returned as it is', async (t) => {
  const { manifest, restore } = tinyModel();
  t.after(restore);
  const options = { device: 'cpu', baseUrl: 'https://server.test/', createWorker: () => new FakeWorker({}) };
  const encoder = await QuestionEncoder.load(manifest, options);
  assert.equal(await QuestionEncoder.load(manifest, options, encoder), encoder);
  const other = await QuestionEncoder.load(updated(manifest, 1), { ...options, fetch: async () => new Response(someBytes(101)) }, encoder).catch((error) => error.name);
  assert.equal(other, 'IntegrityError');
  assert.equal((await encoder.encode('who')).length, 4);
  encoder.dispose();
});
