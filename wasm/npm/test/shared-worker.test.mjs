import assert from 'node:assert/strict';
import test from 'node:test';
import { QuestionEncoder, SearchClient } from '../dist/index.js';
import { withSharedWorkers } from './fake-shared-worker.mjs';
import { FakeWorker, tinyModel, until } from './fake-worker.mjs';
import { fakeFetch } from './helpers.mjs';

/** An origin with shared workers; `open` is a client in a tab of its own. */
function origin(t, script) {
  const { manifest, restore, calls } = tinyModel();
  t.after(restore);
  const { state, locks } = withSharedWorkers(t, script);
  const open = async (options = {}, change = {}) => {
    const given = { device: 'cpu', baseUrl: 'https://server.test/', worker: 'shared', ...options };
    const encoder = await QuestionEncoder.load({ ...manifest, ...change }, given);
    t.after(() => encoder.dispose());
    return encoder;
  };
  const downloads = () => calls.map(({ url }) => url.split('/').pop()).filter((name) => !name.endsWith('.wasm'));
  return { open, state, locks, downloads };
}

/** Answers that wait until the test lets them go, one after another. */
function gate() {
  const waiting = [];
  return { answers: () => new Promise((resolve) => waiting.push(resolve)), waiting, next: () => waiting.shift()() };
}

test('two tabs have one worker, one model in it and one download', async (t) => {
  const { open, state, downloads } = origin(t);
  const one = await open();
  const two = await open();
  assert.deepEqual([...(await one.encode('who'))], [3, 3, 3, 3]);
  assert.deepEqual([...(await two.encode('where'))], [5, 5, 5, 5]);
  assert.equal(await two.countTokens('where'), 5);
  assert.equal(state.workers.length, 1);
  assert.equal(state.loads, 1);
  assert.deepEqual(downloads().sort(), ['config.json', 'tokenizer.json', 'w.q8']);
  assert.ok(one.isShared && two.isShared);
  // In the form that bundlers look for.
  assert.match(state.workers[0].url, /worker\/worker-cpu\.js$/);
  assert.deepEqual(state.workers[0].options, { type: 'module', name: 'dpr-web-shared' });
});

test('two encoders of the same vectors are two models in the worker', async (t) => {
  const { open, state } = origin(t);
  const whole = await open();
  const small = await open({}, { weights: { q8: whole.model.weights.f16 } });
  assert.equal(small.model.fingerprint, whole.model.fingerprint);
  assert.equal((await small.encode('who')).length, 4);
  assert.equal(state.workers.length, 1);
  assert.equal(state.loads, 2);
});

test('two tabs that open at the same time have one model', async (t) => {
  const { open, state } = origin(t);
  const tabs = await Promise.all([open(), open(), open()]);
  for (const tab of tabs) assert.equal((await tab.encode('who')).length, 4);
  assert.equal(state.loads, 1);
  assert.equal(state.workers.length, 1);
});

test('tabs take turns: one question does not wait for all that another tab has asked', async (t) => {
  const { answers, next, waiting } = gate();
  const { open, state } = origin(t, { answers });
  const one = await open();
  const two = await open();
  const many = Promise.all(['a1', 'a2', 'a3'].map((text) => one.encode(text)));
  await until(() => waiting.length === 1);
  const single = two.encode('b1');
  for (let turn = 1; turn <= 4; turn++) {
    await until(() => waiting.length === 1);
    // Both have had the time to ask for their next.
    await new Promise((resolve) => setTimeout(resolve, 5));
    next();
  }
  await Promise.all([many, single]);
  assert.deepEqual(state.texts, ['a1', 'b1', 'a2', 'a3']);
});

test('what one tab takes back is not encoded, and the other tab is answered', async (t) => {
  const { answers, next, waiting } = gate();
  const { open, state } = origin(t, { answers });
  const one = await open();
  const two = await open();
  const stop = new AbortController();
  const kept = one.encode('a1');
  const given = one.encode('a2', { signal: stop.signal });
  await until(() => waiting.length === 1);
  const other = two.encode('b1');
  stop.abort(new Error('enough'));
  await assert.rejects(given, { message: 'enough' });
  next();
  await until(() => waiting.length === 1);
  next();
  assert.equal((await kept).length, 4);
  assert.equal((await other).length, 4);
  assert.deepEqual(state.texts, ['a1', 'b1']);
});

test('a tab that leaves leaves the others their model; the last one ends the worker', async (t) => {
  const { open, state } = origin(t);
  const one = await open();
  const two = await open();
  one.dispose();
  assert.equal((await two.encode('who')).length, 4);
  assert.equal(state.freed, 0);
  assert.deepEqual(state.timers, []);
  two.dispose();
  await until(() => state.timers.length === 1);
  assert.equal(state.freed, 1);
  state.timers[0]();
  assert.equal(state.alive, undefined);
  // And a new tab begins again.
  assert.equal((await (await open()).encode('who')).length, 4);
  assert.equal(state.workers.length, 2);
});

test('a tab that comes before the worker has ended keeps it', async (t) => {
  const { open, state } = origin(t);
  (await open()).dispose();
  await until(() => state.timers.length === 1);
  const next = await open();
  state.timers[0]();
  assert.ok(state.alive);
  assert.equal((await next.encode('who')).length, 4);
  assert.equal(state.workers.length, 1);
});

test('a tab that is gone without a word gives its place up, and what it asked is not encoded', async (t) => {
  const { answers, next, waiting } = gate();
  const { open, state, locks } = origin(t, { answers });
  const one = await open();
  const two = await open();
  const first = one.encode('a1');
  await until(() => waiting.length === 1);
  two.encode('b1').catch(() => undefined);
  await new Promise((resolve) => setTimeout(resolve, 5));
  locks.vanish(1);
  await new Promise((resolve) => setTimeout(resolve, 5));
  next();
  assert.equal((await first).length, 4);
  locks.vanish(0);
  await until(() => state.timers.length === 1);
  assert.deepEqual(state.texts, ['a1']);
});

test('tabs with different models share the worker, and each model goes with its last tab', async (t) => {
  const { open, state } = origin(t);
  const one = await open();
  const two = await open({ dtype: 'f16' });
  const three = await open({}, { fingerprint: 'e'.repeat(64) });
  assert.equal(state.workers.length, 1);
  assert.equal(state.loads, 3);
  two.dispose();
  await until(() => state.freed === 1);
  assert.equal((await one.encode('who')).length, 4);
  assert.equal((await three.encode('who')).length, 4);
});

test('a question that ends the shared worker is an error in its tab; the others go on with workers of their own', async (t) => {
  t.mock.method(console, 'error', () => undefined);
  const { answers, next, waiting } = gate();
  const { open, state } = origin(t, { answers, traps: 'bad' });
  const one = await open();
  const two = await open();
  const bad = one.encode('bad');
  await until(() => waiting.length === 1);
  const good = two.encode('good');
  await new Promise((resolve) => setTimeout(resolve, 5));
  next();
  await assert.rejects(bad, { name: 'EncoderError', code: 'encoder_failed' });
  assert.deepEqual([...(await good)], [4, 4, 4, 4]);
  assert.deepEqual([...(await one.encode('better'))], [6, 6, 6, 6]);
  assert.equal(state.alive, undefined);
  assert.equal(state.dedicated.length, 2);
  assert.ok(!one.isShared && !two.isShared);
});

for (const broken of ['made', 'loaded', 'answered']) {
  test(`where a shared worker cannot be ${broken}, the tab has a worker of its own`, async (t) => {
    const { open, state, downloads } = origin(t, { broken });
    const encoder = await open({ startTimeout: 20 });
    assert.deepEqual([...(await encoder.encode('who'))], [3, 3, 3, 3]);
    assert.ok(!encoder.isShared);
    assert.equal(state.dedicated.length, 1);
    assert.equal(downloads().length, 3);
  });
}

for (const [what, remove] of [
  ['shared workers', () => delete globalThis.SharedWorker],
  ['Web Locks', () => delete navigator.locks],
]) {
  test(`where there are no ${what}, the tab has a worker of its own`, async (t) => {
    const { open, state } = origin(t);
    remove();
    assert.equal((await (await open()).encode('who')).length, 4);
    assert.equal(state.workers.length, 0);
    assert.equal(state.dedicated.length, 1);
  });
}

test('nothing is shared unless the page says so, and a worker of the page\'s own need not be', async (t) => {
  const { open, state } = origin(t);
  assert.ok(!(await open({ worker: undefined })).isShared);
  assert.ok(!(await open({ createWorker: () => new FakeWorker({}) })).isShared);
  assert.equal(state.workers.length, 0);
  const shared = await open({ createWorker: () => new SharedWorker('/assets/shared.js') });
  assert.ok(shared.isShared);
  assert.equal((await shared.encode('who')).length, 4);
});

test('a client searches with a shared worker', async (t) => {
  const { state } = origin(t);
  const { manifest, restore } = tinyModel();
  const files = globalThis.fetch;
  const server = fakeFetch((url, init) => {
    if (url.endsWith('/v1/model')) return Response.json(manifest);
    if (url.endsWith('/v1/search')) return Response.json({ hits: [], took_ms: 1 });
    return files(`https://server.test/${url.split('/').pop()}`, init);
  });
  t.after(() => {
    server.restore();
    restore();
  });
  const client = await SearchClient.connect('https://server.test/', { device: 'cpu', worker: 'shared' });
  t.after(() => client.dispose());
  assert.deepEqual((await client.search('who')).hits, []);
  assert.deepEqual(state.texts, ['who']);
});
