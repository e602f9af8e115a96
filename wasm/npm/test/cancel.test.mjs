import assert from 'node:assert/strict';
import test from 'node:test';
import { QuestionEncoder, SearchClient } from '../dist/index.js';
import { FakeWorker, tinyModel, until } from './fake-worker.mjs';
import { fakeFetch } from './helpers.mjs';

/** A worker that answers each question when the test says so. */
class SlowWorker extends FakeWorker {
  texts = [];
  #answers = [];

  postMessage(command) {
    if (command.type !== 'encode') {
      super.postMessage(command);
      return;
    }
    this.texts.push(command.text);
    this.#answers.push(() => super.postMessage(command));
  }

  answer() {
    this.#answers.shift()();
  }
}

async function slow(t) {
  const { manifest, restore } = tinyModel();
  t.after(restore);
  const worker = new SlowWorker({});
  const encoder = await QuestionEncoder.load(manifest, { device: 'cpu', baseUrl: 'https://server.test/', createWorker: () => worker });
  t.after(() => encoder.dispose());
  return { encoder, worker, manifest };
}

test('of twenty keystrokes that abort each other, the one under way and the last are encoded', async (t) => {
  const { encoder, worker } = await slow(t);
  let last;
  const given = [];
  let promise;
  for (let key = 1; key <= 20; key++) {
    last?.abort();
    last = new AbortController();
    promise = encoder.encode('q'.repeat(key), { signal: last.signal });
    given.push(promise.then(() => 'answered', (error) => error.name));
    await new Promise((resolve) => setImmediate(resolve));
  }
  worker.answer();
  await until(() => worker.texts.length === 2);
  worker.answer();
  assert.deepEqual([...(await promise)], [20, 20, 20, 20]);
  assert.deepEqual(worker.texts.map((text) => text.length), [1, 20]);
  assert.deepEqual(await Promise.all(given), [...Array(19).fill('AbortError'), 'answered']);
});

test('a signal that was aborted before costs no encoding', async (t) => {
  const { encoder, worker } = await slow(t);
  const reason = new Error('too late');
  await assert.rejects(encoder.encode('who', { signal: AbortSignal.abort(reason) }), reason);
  assert.deepEqual(worker.texts, []);
});

test('a search that is aborted while it waits is neither encoded nor sent', async (t) => {
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
  const worker = new SlowWorker({});
  const client = await SearchClient.connect('https://server.test/', { device: 'cpu', createWorker: () => worker });
  t.after(() => client.dispose());
  const first = client.search('a');
  const stop = new AbortController();
  const second = client.search('bb', { signal: stop.signal });
  await until(() => worker.texts.length === 1);
  stop.abort(new Error('enough'));
  await assert.rejects(second, { message: 'enough' });
  worker.answer();
  await first;
  assert.deepEqual(worker.texts, ['a']);
  assert.equal(server.calls.filter(({ url }) => url.endsWith('/v1/search')).length, 1);
});

test('signals work where the browser has no AbortSignal.any', async (t) => {
  const original = AbortSignal.any;
  AbortSignal.any = undefined;
  t.after(() => (AbortSignal.any = original));
  const { manifest, restore } = tinyModel();
  t.after(restore);
  const stop = new AbortController();
  const options = { device: 'cpu', baseUrl: 'https://server.test/', createWorker: () => new FakeWorker({}), signal: stop.signal };
  const encoder = await QuestionEncoder.load(manifest, options);
  assert.equal((await encoder.encode('abc', { signal: stop.signal })).length, 4);
  encoder.dispose();
});
