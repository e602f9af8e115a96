import assert from 'node:assert/strict';
import test from 'node:test';
import { DisposedError, DownloadError, SearchClient, QuestionEncoder, typeahead } from 'dpr-web';
import { FakeClient, FakeEncoder } from 'dpr-web/testing';
import { until } from './dom.mjs';

const publicNames = (of) => {
  const names = new Set();
  for (let type = of.prototype; type !== EventTarget.prototype && type !== Object.prototype; type = Object.getPrototypeOf(type)) {
    for (const name of Reflect.ownKeys(type)) names.add(name);
  }
  return [...names];
};

test('the fakes have every public member of what they stand for', () => {
  const fake = new FakeClient();
  for (const name of publicNames(SearchClient)) assert.ok(name in fake, String(name));
  const encoder = new FakeEncoder();
  for (const name of publicNames(QuestionEncoder)) assert.ok(name in encoder, String(name));
});

test('a client finds what the script says, the first k of it', async () => {
  const client = new FakeClient({ hits: ['one', { id: 'b', title: 'Two', text: 'two', score: 0.5, metadata: { year: 2 } }, 'three'] });
  const { hits } = await client.search('who', { k: 2 });
  assert.deepEqual(hits, [
    { id: 'passage-1', score: 1, title: '', text: 'one' },
    { id: 'b', score: 0.5, title: 'Two', text: 'two', metadata: { year: 2 } },
  ]);
  client.script = { hits: (question) => [`about ${question}`] };
  const found = await client.searchMany(['a', 'b']);
  assert.deepEqual(found.map(({ hits }) => hits[0].text), ['about a', 'about b']);
  assert.deepEqual(client.searches.map(({ question }) => question), ['who', 'a', 'b']);
});

test('fakes encode and count without a search', async () => {
  const client = new FakeClient();
  const encoder = new FakeEncoder();
  const vectors = await encoder.encodeMany(['who', 'what']);
  assert.deepEqual(await client.encodeMany(['who', 'what']), vectors);
  assert.deepEqual([vectors[0].length, vectors[0].join() === vectors[1].join()], [4, false]);
  assert.deepEqual([await client.countTokens(' two words '), await encoder.countTokens('w '.repeat(100))], [4, 64]);
  assert.deepEqual(client.searches, []);
  client.dispose();
  await assert.rejects(client.countTokens('who'), DisposedError);
});

test('a client tells of its states and requests as the real one does', async () => {
  const client = new FakeClient({ hits: ['one'] });
  const states = [client.state];
  const requests = [];
  client.addEventListener('statechange', () => states.push(client.state));
  client.addEventListener('request', ({ detail }) => requests.push(detail));
  assert.equal(client.device, undefined);
  const { request } = await client.search('who', { k: 3, filter: { ids: ['a'] } });
  client.dispose();
  assert.deepEqual(states, ['idle', 'loading', 'ready', 'disposed']);
  assert.deepEqual([requests[0].id, requests[0].request, await requests[0].outcome], [1, request, 'answered']);
  assert.deepEqual(Object.keys(JSON.parse(request.body)), ['vector', 'k', 'model', 'filter']);
  assert.ok(!request.body.includes('who'));
});

test('several questions are one request with a vector for each', async () => {
  const client = new FakeClient({ hits: (question) => [`about ${question}`] });
  const requests = [];
  client.addEventListener('request', ({ detail }) => requests.push(detail.request));
  const [first, second] = await client.searchMany(['who', 'what'], { k: 3 });
  assert.equal(requests.length, 1);
  assert.deepEqual([first.request, second.requests], [requests[0], requests]);
  const { vectors, k } = JSON.parse(requests[0].body);
  assert.deepEqual([vectors.length, k], [2, 3]);
  assert.deepEqual([first.hits[0].text, second.hits[0].text], ['about who', 'about what']);
  assert.deepEqual(await client.searchMany([]), []);
});

test('a question without a word is refused as the encoder refuses it, and nothing is sent', async () => {
  const client = new FakeClient({ hits: ['one'] });
  client.addEventListener('request', () => assert.fail('nothing was to be sent'));
  for (const refused of [client.search(''), client.search(' \n'), client.searchMany(['who', ' ']), client.encodeMany(['']), new FakeEncoder().encode(' ')]) {
    await assert.rejects(refused, { name: 'EncoderError', code: 'encoder_failed' });
  }
});

test('errors, those of loading as well, come where a page would get them', async () => {
  const broken = new Error('no answer');
  const client = new FakeClient({ error: (question) => (question === 'bad' ? broken : undefined), hits: ['one'] });
  await assert.rejects(client.search('bad'), broken);
  assert.equal((await client.search('good')).hits.length, 1);
  const offline = new FakeClient({ loadError: broken });
  await offline.preload();
  assert.equal(offline.state, 'failed');
  await assert.rejects(offline.ready, broken);
  await assert.rejects(offline.search('who'), broken);
  offline.script = {};
  await offline.ready;
  assert.equal(offline.state, 'ready');
});

test('a signal and `dispose` end a search that is under way', async () => {
  const client = new FakeClient({ delay: 60_000 });
  const stop = new AbortController();
  const aborted = client.search('who', { signal: stop.signal });
  const disposed = client.search('what');
  await until(() => client.state === 'ready');
  stop.abort(new Error('typed on'));
  await assert.rejects(aborted, /typed on/);
  client.dispose();
  await assert.rejects(disposed, DisposedError);
  await assert.rejects(client.search('later'), DisposedError);
});

test('an answer from passages that are given is aborted by its signal as well', async () => {
  const client = new FakeClient();
  await assert.rejects(client.answer('who', { hits: [], signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test('typeahead works on it, with delays that overtake each other', async () => {
  const client = new FakeClient({ hits: (question) => [question], delay: (question) => (question === 'slow' ? 30 : 1) });
  const live = typeahead(client, { debounce: 1 });
  live.input('slow');
  await until(() => client.searches.length === 1);
  live.input('fast');
  await until(() => live.state.status === 'done');
  assert.equal(live.state.result.hits[0].text, 'fast');
  assert.equal(client.searches[0].options.signal.aborted, true);
});

test('an encoder gives the same text the same vector, of length 1, and another text another', async () => {
  const encoder = new FakeEncoder();
  const [one, same, other] = [await encoder.encode('who'), await encoder.encode('who'), await encoder.encode('whom')];
  assert.deepEqual(one, same);
  assert.notDeepEqual(one, other);
  assert.equal(one.length, encoder.dim);
  assert.ok(Math.abs(Math.hypot(...one) - 1) < 1e-6);
  assert.deepEqual(encoder.texts, ['who', 'who', 'whom']);
  encoder.dispose();
  await assert.rejects(encoder.encode('who'), DisposedError);
});

test('answers are spans of the passages found, and a reader that is not there is said as the client says it', async () => {
  const client = new FakeClient({ hits: ['Carolina lost.', 'Denver won.'], answers: ['Denver', 'nobody', 'lost'] });
  const seen = [];
  const { answers, hits } = await client.answer('who won', { count: 9, onAnswer: (progress) => seen.push(progress) });
  assert.deepEqual(answers.map(({ text, passage, start, end }) => [text, passage, start, end]), [['Denver', 1, 0, 6], ['lost', 0, 9, 13]]);
  assert.equal(answers[0].hit, hits[1]);
  assert.deepEqual(seen.map(({ read, total }) => [read, total]), [[2, 2]]);
  assert.equal((await client.answer('who won')).answers.length, 1);
  assert.equal((await client.search('who won', { rerank: {} })).reranked, true);
  assert.equal((await client.search('who won')).reranked, undefined);

  const readerError = new DownloadError('https://server.test/reader', 404, 'Not Found');
  client.script = { hits: ['Denver won.'], readerError };
  const { length } = client.searches;
  await assert.rejects(client.answer('who won'), readerError);
  assert.equal(client.searches.length, length, 'nothing is searched without a reader');
  const { reranked, rerankError, hits: found } = await client.search('who won', { rerank: { depth: 5 } });
  assert.deepEqual([reranked, rerankError, found.length], [false, readerError, 1]);
});
