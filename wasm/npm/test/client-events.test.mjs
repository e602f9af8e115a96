import assert from 'node:assert/strict';
import test from 'node:test';
import { SearchClient } from '../dist/index.js';
import { FakeWorker, tinyModel, until, withGpu, withStorage } from './fake-worker.mjs';
import { fakeFetch } from './helpers.mjs';

/**
 * A client, not loaded yet, of a server of the tiny model whose searches are answered by `answer`, and its model by
 * `options.model`, where that is given.
 */
function client(t, answer, { model, ...options } = {}) {
  const { manifest, restore } = tinyModel();
  const files = globalThis.fetch;
  const { calls, restore: restoreServer } = fakeFetch((url, init) => {
    if (url.endsWith('/v1/model')) return model?.() ?? Response.json(manifest);
    if (url.endsWith('/v1/search')) return answer(init, calls.filter((call) => call.url.endsWith('/v1/search')).length);
    return files(`https://server.test/${url.split('/').pop()}`, init);
  });
  const made = SearchClient.create('https://server.test/', { device: 'cpu', createWorker: () => new FakeWorker({}), ...options });
  t.after(() => {
    made.dispose();
    restoreServer();
    restore();
  });
  const searches = () => calls.filter(({ url }) => url.endsWith('/v1/search'));
  return { client: made, calls, searches };
}
const nothing = () => Response.json({ hits: [], took_ms: 1 });

test('every request that leaves is told of before its answer: answered, failed and aborted ones', async (t) => {
  const stop = new AbortController();
  const answers = [
    nothing,
    () => Response.json({ error: { code: 'wrong_model', message: 'no' } }, { status: 409 }),
    ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
        stop.abort(new Error('enough'));
      }),
  ];
  const { client: searching, searches } = client(t, (init, count) => answers[count - 1](init), { headers: { 'x-api-key': 'secret' } });
  const told = [];
  searching.addEventListener('request', ({ detail }) => told.push({ ...detail, sent: searches().length }));
  const result = await searching.search('who');
  await assert.rejects(searching.search('what'), { code: 'wrong_model' });
  await assert.rejects(searching.search('where', { signal: stop.signal }), { message: 'enough' });
  assert.deepEqual(await Promise.all(told.map(({ outcome }) => outcome)), ['answered', 'failed', 'aborted']);
  assert.deepEqual(told.map(({ id }) => id), [1, 2, 3]);
  assert.deepEqual(told[0].request, result.request);
  assert.deepEqual(told.map(({ request }) => request.body), searches().map(({ init }) => init.body));
});

test('every step of the loading is an event `progress`, as `onProgress` gets it, and a listener that throws keeps neither from the other', async (t) => {
  const reported = [];
  globalThis.reportError = (error) => reported.push(error.message);
  t.after(() => delete globalThis.reportError);
  const [events, steps] = [[], []];
  const onProgress = (event) => {
    steps.push(event);
    throw new Error(`thrown at ${event.status}`);
  };
  const { client: loading } = client(t, nothing, { onProgress });
  loading.addEventListener('progress', ({ detail }) => events.push(detail));
  loading.addEventListener('devicechange', () => assert.fail('there was none before'));
  await loading.ready;
  assert.deepEqual(events, steps);
  assert.deepEqual([...new Set(events.map(({ status }) => status))].sort(), ['done', 'download', 'initiate', 'progress', 'ready', 'worker']);
  assert.deepEqual(events.at(-1), { status: 'ready', device: 'cpu', dtype: 'q8' });
  assert.ok(reported.includes('thrown at ready'));
});

test('`devicechange` tells that WebGPU turned out to be faster, once it encodes', async (t) => {
  withGpu(t);
  withStorage(t);
  const script = { cpu: { measure: 70 }, webgpu: { measure: 5 } };
  const { client: timed } = client(t, nothing, { device: 'auto', createWorker: () => new FakeWorker(script) });
  const changes = [];
  timed.addEventListener('devicechange', ({ detail }) => changes.push({ ...detail, now: timed.device }));
  await timed.ready;
  assert.deepEqual([timed.device, changes], ['cpu', []]);
  await until(() => changes.length > 0);
  assert.deepEqual(changes, [{ from: 'cpu', to: 'webgpu', reason: 'WebGPU is faster', now: 'webgpu' }]);
});

test('`devicechange` tells that the GPU was lost, with the reason, once the CPU encodes; a CPU that is replaced by another is no change', async (t) => {
  withGpu(t);
  const workers = [];
  const createWorker = () => {
    workers.push(new FakeWorker(workers.length ? {} : { webgpu: { encode: 'fatal' } }));
    return workers.at(-1);
  };
  const { client: losing } = client(t, nothing, { device: 'webgpu', createWorker });
  const changes = [];
  losing.addEventListener('devicechange', ({ detail }) => changes.push({ ...detail, now: losing.device }));
  await losing.search('who');
  const change = { from: 'webgpu', to: 'cpu', reason: 'unreachable executed', now: 'cpu' };
  assert.deepEqual(changes, [change]);
  workers[1].onmessage({ data: { type: 'fatal', message: 'unreachable executed' } });
  await losing.search('what');
  assert.deepEqual([workers.length, changes], [3, [change]]);
});

test('a client that is disposed in `devicechange` ends the worker that has just taken over', async (t) => {
  withGpu(t);
  const workers = [];
  const createWorker = () => {
    workers.push(new FakeWorker({ webgpu: { encode: 'fatal' } }));
    return workers.at(-1);
  };
  const { client: losing } = client(t, nothing, { device: 'webgpu', createWorker });
  losing.addEventListener('devicechange', () => losing.dispose());
  await assert.rejects(losing.search('who'), { code: 'disposed' });
  assert.deepEqual(workers.map(({ terminated }) => terminated), [true, true]);
});

test('a search that is given up before it is sent is not told of', async (t) => {
  const { client: searching } = client(t, nothing);
  searching.addEventListener('request', () => assert.fail('nothing was sent'));
  await assert.rejects(searching.search('who', { signal: AbortSignal.abort(new Error('enough')) }), { message: 'enough' });
});

test('values of the page\'s own headers are sent and not shown', async (t) => {
  const { client: searching, searches } = client(t, nothing, { headers: { 'x-api-key': 'secret' } });
  const { request } = await searching.search('who');
  assert.deepEqual(request.headers, { 'x-api-key': '(hidden)', 'content-type': 'application/json' });
  assert.equal(searches()[0].headers.get('x-api-key'), 'secret');
});

test('headers may be made for each request, those of model files included', async (t) => {
  let made = 0;
  const headers = async () => ({ authorization: `Bearer ${++made}` });
  const { client: searching, calls } = client(t, nothing, { headers });
  await searching.search('who');
  assert.equal(calls.length, 5);
  const given = calls.map((call) => call.headers.get('authorization'));
  assert.deepEqual([...given].sort(), ['Bearer 1', 'Bearer 2', 'Bearer 3', 'Bearer 4', 'Bearer 5']);
});

test('a busy server is asked again when it says, with new headers, and each try is told of', async (t) => {
  let made = 0;
  const busy = (_, count) => (count === 1 ? new Response('', { status: 429, headers: { 'retry-after': '0' } }) : nothing());
  const { client: searching, searches } = client(t, busy, { headers: () => ({ 'x-try': String(++made) }) });
  const told = [];
  searching.addEventListener('request', ({ detail }) => told.push(detail.outcome));
  const { request, requests } = await searching.search('who');
  assert.deepEqual(await Promise.all(told), ['failed', 'answered']);
  assert.deepEqual([requests.length, requests.at(-1)], [2, request]);
  const [first, second] = searches().map((call) => call.headers.get('x-try'));
  assert.notEqual(first, second);
});

test('a server that stays busy is an error with its code and when to come back', async (t) => {
  const busy = () =>
    Response.json({ error: { code: 'overloaded', message: 'too much', fix: 'wait' } }, { status: 429, headers: { 'retry-after': '60' } });
  const { client: searching, searches } = client(t, busy);
  await assert.rejects(searching.search('who'), (error) => error.code === 'overloaded' && error.status === 429 && error.retryAfter === 60);
  assert.equal(searches().length, 1);
});

for (const [retry, tries] of [[{ delay: () => 0 }, 3], [{ limit: 1, delay: () => 0 }, 2], [0, 1]]) {
  test(`with retry ${JSON.stringify(retry)} a search without an answer is sent ${tries} times`, async (t) => {
    const gone = () => {
      throw new TypeError('Failed to fetch');
    };
    const { client: searching, searches } = client(t, gone, { retry });
    await searching.preload();
    await assert.rejects(searching.search('who'), { code: 'unreachable' });
    assert.equal(searches().length, tries);
  });
}

test('a model that is refused is an error in the words of the server, with what to do', async (t) => {
  const error = { code: 'unauthorized', message: 'no API key was sent', fix: 'send one in the header x-api-key' };
  const { client: refused } = client(t, nothing, { model: () => Response.json({ error }, { status: 401 }) });
  await assert.rejects(refused.ready, {
    name: 'DownloadError',
    code: 'download_failed',
    status: 401,
    message: `https://server.test/v1/model could not be downloaded: ${error.message}`,
    fix: error.fix,
  });
});

for (const [status, fix] of [
  [401, /API key/],
  [404, /Check the address/],
  [429, /Wait a moment/],
  [500, /Check the connection/],
  [503, /Wait a moment/],
]) {
  test(`a model that is refused with ${status} and no words is an error that says what to do`, async (t) => {
    const { client: refused } = client(t, nothing, { model: () => new Response('<p>', { status, statusText: 'No' }), retry: 0 });
    await assert.rejects(refused.ready, { name: 'DownloadError', status, message: /the server answered \d+ No$/, fix });
  });
}

test('a refusal is not sent again', async (t) => {
  const { client: searching, searches } = client(t, () => new Response('', { status: 403 }));
  await assert.rejects(searching.search('who'), { status: 403 });
  assert.equal(searches().length, 1);
});

test('the client\'s time limit ends further tries too', async (t) => {
  const busy = () => new Response('', { status: 503, headers: { 'retry-after': '20' } });
  const { client: searching, searches } = client(t, busy, { timeout: 30 });
  await assert.rejects(searching.search('who'), { code: 'timeout' });
  assert.equal(searches().length, 1);
});

test('making a client asks for nothing; the first search loads it, once', async (t) => {
  const { client: searching, calls } = client(t, nothing);
  const states = [];
  searching.addEventListener('statechange', () => states.push(searching.state));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([searching.state, searching.device, searching.dtype, searching.model], ['idle', undefined, undefined, undefined]);
  assert.equal(calls.length, 0);
  await Promise.all([searching.search('who'), searching.search('what'), searching.preload()]);
  assert.equal(calls.filter(({ url }) => url.endsWith('/v1/model')).length, 1);
  assert.deepEqual(states, ['loading', 'ready']);
  const ready = await searching.ready;
  assert.equal(ready, searching);
  assert.deepEqual([ready.device, ready.dtype, ready.model.name], ['cpu', 'q8', 'tiny']);
});

test('a client whose loading failed says so, and loads with the next search', async (t) => {
  let isDown = true;
  const { client: searching } = client(t, nothing, {
    retry: 0,
    fetch: (url, init) => (isDown ? Promise.reject(new TypeError('Failed to fetch')) : globalThis.fetch(url, init)),
  });
  await searching.preload();
  assert.equal(searching.state, 'failed');
  await assert.rejects(searching.ready, { name: 'DownloadError' });
  isDown = false;
  await searching.search('who');
  assert.equal(searching.state, 'ready');
});

test('disposing while it loads ends the loading and what waits for it', async (t) => {
  const workers = [];
  const createWorker = () => {
    workers.push(new FakeWorker({ cpu: { load: 'never' } }));
    return workers[0];
  };
  const { client: searching } = client(t, nothing, { createWorker });
  const search = searching.search('who');
  const { ready } = searching;
  ready.catch(() => undefined);
  await until(() => workers[0]?.commands.includes('load'));
  searching.dispose();
  await assert.rejects(search, { name: 'DisposedError', code: 'disposed' });
  await assert.rejects(ready, { name: 'DisposedError' });
  await assert.rejects(searching.ready, { name: 'DisposedError' });
  assert.ok(workers[0].terminated);
  assert.equal(searching.state, 'disposed');
});

test('a search that is given up leaves the loading alone', async (t) => {
  const { client: searching } = client(t, nothing);
  const stop = new AbortController();
  const search = searching.search('who', { signal: stop.signal });
  stop.abort(new Error('enough'));
  await assert.rejects(search, { message: 'enough' });
  await searching.ready;
});

test('several questions are one request, and each has its own passages', async (t) => {
  const hit = (id) => ({ id, score: 1, title: '', text: '' });
  const { client: searching, searches } = client(t, () => Response.json({ results: [{ hits: [hit('1')] }, { hits: [hit('2'), hit('3')] }], took_ms: 4 }));
  const results = await searching.searchMany(['who', 'where'], { k: 2, filter: { ids: ['1'] } });
  assert.deepEqual(results.map(({ hits }) => hits.map(({ id }) => id)), [['1'], ['2', '3']]);
  assert.equal(results[0].timings.tookMs, 4);
  assert.equal(searches().length, 1);
  const body = JSON.parse(searches()[0].init.body);
  assert.deepEqual([body.vectors.length, body.k, body.filter], [2, 2, { ids: ['1'] }]);
  assert.deepEqual(await searching.searchMany([]), []);
});

for (const [what, answer, message] of [
  ['of one search', { hits: [], took_ms: 1 }, /`results` is not a list of 2/],
  ['with too few lists', { results: [{ hits: [] }], took_ms: 1 }, /`results` is not a list of 2/],
  ['with a bad list', { results: [{ hits: [] }, {}], took_ms: 1 }, /`results\[1\]\.hits` is not a list/],
]) {
  test(`an answer ${what} to several questions is refused`, async (t) => {
    const { client: searching } = client(t, () => Response.json(answer));
    await assert.rejects(searching.searchMany(['who', 'where']), (error) => error.code === 'unexpected_answer' && message.test(error.message));
  });
}

for (const symbol of [Symbol.dispose ?? Symbol.for('Symbol.dispose'), Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]) {
  test(`${String(symbol)} disposes client and encoder`, async (t) => {
    const workers = [];
    const createWorker = () => {
      workers.push(new FakeWorker({}));
      return workers.at(-1);
    };
    const { client: searching } = client(t, nothing, { createWorker });
    await searching.ready;
    await searching[symbol]();
    assert.equal(searching.state, 'disposed');
    assert.ok(workers[0].terminated);
    const { QuestionEncoder } = await import('../dist/index.js');
    const encoder = await QuestionEncoder.load('https://server.test/v1/model', { device: 'cpu', createWorker });
    await encoder[symbol]();
    assert.ok(workers[1].terminated);
    await assert.rejects(encoder.encode('a'), { name: 'DisposedError' });
  });
}

for (const [what, options] of [
  ['headers that never come', { headers: () => new Promise(() => undefined) }],
  ['a fetch that knows nothing of signals', { fetch: () => new Promise(() => undefined) }],
]) {
  test(`${what} hold nothing for ever`, async (t) => {
    const { client: searching } = client(t, nothing, { ...options, stallTimeout: 20 });
    await assert.rejects(searching.search('who'), { name: 'DownloadError', code: 'timeout' });
  });
}
