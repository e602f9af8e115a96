import assert from 'node:assert/strict';
import test from 'node:test';
import { SearchClient } from '../dist/index.js';
import { FakeWorker, tinyModel } from './fake-worker.mjs';
import { fakeFetch } from './helpers.mjs';

const HIT = { id: '7', score: 0.5, title: 'Cats', text: 'Cats sleep most of the day.' };

/** A client of a server of the tiny model whose searches are answered by `answer`. */
async function client(t, answer, options = {}, change = (manifest) => manifest, description = '/v1/model') {
  const { manifest, restore } = tinyModel();
  const files = globalThis.fetch;
  const { calls, restore: restoreServer } = fakeFetch((url, init) => {
    if (url.endsWith(description)) return Response.json(change(manifest));
    if (url.endsWith('/v1/search')) return answer(init);
    return files(`https://server.test/${url.split('/').pop()}`, init);
  });
  t.after(() => {
    restoreServer();
    restore();
  });
  const connected = await SearchClient.connect('https://server.test/', { device: 'cpu', createWorker: () => new FakeWorker({}), ...options });
  t.after(() => connected.dispose());
  return { client: connected, calls, manifest };
}

const answers = (value) => () => Response.json(value);

test('hits come as the server sent them', async (t) => {
  const { client: searching } = await client(t, answers({ hits: [{ ...HIT, extra: 1 }], took_ms: 2 }));
  const { hits, timings } = await searching.search('who');
  assert.deepEqual(hits, [{ ...HIT, extra: 1 }]);
  assert.equal(timings.tookMs, 2);
});

test('the small encoder is loaded from its own address, and searches with it are of the same model', async (t) => {
  const answer = (init) => Response.json({ hits: [HIT], took_ms: 2, sent: JSON.parse(init.body).model });
  const { client: searching, calls, manifest } = await client(t, answer, { encoder: 'small' }, (manifest) => ({ ...manifest, small: '/v1/model/small' }), '/v1/model/small');
  assert.ok(calls.some(({ url }) => url === 'https://server.test/v1/model/small'));
  assert.ok(!calls.some(({ url }) => url.endsWith('/v1/model')));
  assert.equal(searching.model.small, '/v1/model/small');
  await searching.search('who');
  const { body } = calls.find(({ url }) => url.endsWith('/v1/search')).init;
  assert.equal(JSON.parse(body).model, manifest.fingerprint);
});

test('a server without a small encoder is a download error', async (t) => {
  const { restore } = fakeFetch(() => Response.json({ error: { code: 'no_small_model' } }, { status: 404 }));
  t.after(restore);
  await assert.rejects(
    SearchClient.connect('https://server.test/', { encoder: 'small', createWorker: () => new FakeWorker({}) }),
    (error) => error.name === 'DownloadError' && error.status === 404 && error.url.endsWith('/v1/model/small'),
  );
});

const bad = [
  ['a list', [], /not a JSON object/],
  ['no hits', { took_ms: 1 }, /`hits`/],
  ['hits of another form', { hits: { 0: HIT }, took_ms: 1 }, /`hits`/],
  ['no time', { hits: [] }, /`took_ms`/],
  ['a hit that is a string', { hits: ['7'], took_ms: 1 }, /`hits\[0\]`/],
  ['a score of null', { hits: [HIT, { ...HIT, score: null }], took_ms: 1 }, /`hits\[1\]\.score`/],
  ['a score in words', { hits: [{ ...HIT, score: '0.5' }], took_ms: 1 }, /`hits\[0\]\.score`/],
  ['an id that is a number', { hits: [{ ...HIT, id: 7 }], took_ms: 1 }, /`hits\[0\]\.id`/],
  ['a hit without a title', { hits: [{ ...HIT, title: undefined }], took_ms: 1 }, /`hits\[0\]\.title`/],
  ['metadata that is a list', { hits: [{ ...HIT, metadata: [1] }], took_ms: 1 }, /`hits\[0\]\.metadata`/],
  ['metadata within metadata', { hits: [{ ...HIT, metadata: { a: { b: 1 } } }], took_ms: 1 }, /`hits\[0\]\.metadata\.a`/],
  ['a text that is an object', { hits: [{ ...HIT, text: {} }], took_ms: 1 }, /`hits\[0\]\.text`/],
];
for (const [name, answer, message] of bad) {
  test(`an answer with ${name} is refused`, async (t) => {
    const { client: searching } = await client(t, answers(answer));
    await assert.rejects(
      searching.search('who'),
      (error) => error.name === 'ServerError' && error.code === 'unexpected_answer' && error.status === 200 && message.test(error.message),
    );
  });
}

test('an answer that is not JSON is refused, and one that breaks off is unreachable', async (t) => {
  const { client: searching } = await client(t, () => new Response('<h1>Hello</h1>'));
  await assert.rejects(searching.search('who'), { name: 'ServerError', code: 'unexpected_answer' });
  const broken = () => new Response(new ReadableStream({ start: (controller) => controller.error(new TypeError('network error')) }));
  const { client: other } = await client(t, broken);
  await assert.rejects(other.search('who'), { name: 'ServerError', code: 'unreachable' });
});

test('a server that does not answer is given up after the time given', async (t) => {
  const never = ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const { client: searching } = await client(t, never);
  await assert.rejects(searching.search('who', { timeout: 20 }), { name: 'ServerError', code: 'timeout' });
  // The page's own signal keeps its reason.
  const reason = new Error('enough');
  await assert.rejects(searching.search('who', { signal: AbortSignal.abort(reason) }), reason);
});

test('headers, credentials and fetch are those of the page, for manifest, model files and searches', async (t) => {
  const own = [];
  const options = {
    headers: { 'x-api-key': 'k' },
    credentials: 'include',
    fetch: (url, init) => {
      own.push(String(url));
      return globalThis.fetch(url, init);
    },
  };
  const { client: searching, calls } = await client(t, answers({ hits: [], took_ms: 1 }), options);
  await searching.search('who');
  assert.equal(calls.length, 5);
  assert.equal(own.length, 5);
  for (const { url, headers, init } of calls) {
    assert.equal(headers.get('x-api-key'), 'k', url);
    assert.equal(init.credentials, 'include', url);
  }
  assert.equal(calls.at(-1).headers.get('content-type'), 'application/json');
});

test('no request of a client has cookies unless the page says so', async (t) => {
  const { client: searching, calls } = await client(t, answers({ hits: [], took_ms: 1 }));
  await searching.search('who');
  for (const { url, init } of calls) assert.equal(init.credentials, 'omit', url);
});

test('an API key does not travel to files on another origin', async (t) => {
  const elsewhere = (manifest) => ({ ...manifest, weights: { q8: { ...manifest.weights.q8, url: 'https://cdn.test/w.q8' } } });
  const { calls } = await client(t, answers({}), { headers: { 'x-api-key': 'k' } }, elsewhere);
  const keys = new Map(calls.map(({ url, headers }) => [url, headers.get('x-api-key')]));
  assert.equal(keys.get('https://cdn.test/w.q8'), null);
  assert.equal(keys.get('https://server.test/v1/tokenizer.json'), 'k');
});

test('sizes that no file has are a ManifestError and no failure of a device', async (t) => {
  for (const bytes of [1e12, -1, 0, 0.5, 2 ** 53]) {
    const change = (manifest) => ({ ...manifest, weights: { q8: { ...manifest.weights.q8, bytes } } });
    await assert.rejects(
      client(t, answers({}), {}, change),
      (error) => error.name === 'ManifestError' && error.message.includes('weights.q8.bytes') && error.message.includes('from 1 to'),
    );
  }
});
