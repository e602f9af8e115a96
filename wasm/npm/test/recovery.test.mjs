import assert from 'node:assert/strict';
import test from 'node:test';
import { QuestionEncoder } from '../dist/index.js';
import { FakeWorker, tinyModel, withGpu } from './fake-worker.mjs';
import { fakeFetch } from './helpers.mjs';

/** Loads an encoder whose n-th worker follows the n-th script, and all later ones the last. */
async function load(t, scripts, options = {}) {
  const model = tinyModel();
  t.after(model.restore);
  const workers = [];
  const createWorker = () => {
    workers.push(new FakeWorker(scripts[Math.min(workers.length, scripts.length - 1)]));
    return workers.at(-1);
  };
  const encoder = await QuestionEncoder.load(model.manifest, {
    device: 'cpu',
    baseUrl: 'https://server.test/',
    createWorker,
    retry: 0,
    ...options,
  });
  t.after(() => encoder.dispose());
  return { encoder, workers };
}

test('a CPU module that traps is replaced: the question is an error, the one behind it and later ones are answered', async (t) => {
  const { encoder, workers } = await load(t, [{ cpu: { encode: 'fatal' } }, {}]);
  const first = encoder.encode('a');
  const second = encoder.encode('bb');
  await assert.rejects(first, (error) => error.name === 'EncoderError' && /unreachable/.test(error.message));
  assert.deepEqual([...(await second)], [2, 2, 2, 2]);
  assert.deepEqual([...(await encoder.encode('ccc'))], [3, 3, 3, 3]);
  assert.equal(workers.length, 2);
  assert.ok(workers[0].terminated);
});

test('a CPU worker that ends while nobody asks is replaced with the next question, not before', async (t) => {
  const { encoder, workers } = await load(t, [{}]);
  workers[0].onmessage({ data: { type: 'fatal', message: 'unreachable executed' } });
  await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(workers.length, 1);
  assert.deepEqual([...(await encoder.encode('abc'))], [3, 3, 3, 3]);
  assert.equal(workers.length, 2);
});

test('a GPU that is lost without a network is an error until the network is back', async (t) => {
  withGpu(t);
  const { encoder } = await load(t, [{ webgpu: { encode: 'fatal' } }, {}], { device: 'webgpu' });
  const away = fakeFetch(() => {
    throw new TypeError('Failed to fetch');
  });
  await assert.rejects(encoder.encode('a'), { name: 'DownloadError', code: 'download_failed' });
  await assert.rejects(encoder.encode('a'), { name: 'DownloadError' });
  away.restore();
  assert.deepEqual([...(await encoder.encode('bb'))], [2, 2, 2, 2]);
  assert.equal(encoder.device, 'cpu');
});

test('a listener that throws breaks neither a download nor a fallback, and is reported', async (t) => {
  withGpu(t);
  const reported = [];
  globalThis.reportError = (error) => reported.push(error.message);
  t.after(() => delete globalThis.reportError);
  const requests = [];
  const onProgress = ({ status }) => {
    throw new Error(`thrown at ${status}`);
  };
  const model = tinyModel();
  t.after(model.restore);
  const files = globalThis.fetch;
  const fake = fakeFetch((url, init) => {
    requests.push(url);
    return files(url, init);
  });
  t.after(fake.restore);
  const workers = [];
  const createWorker = () => {
    workers.push(new FakeWorker(workers.length === 0 ? { webgpu: { encode: 'fatal' } } : {}));
    return workers.at(-1);
  };
  const options = { device: 'webgpu', baseUrl: 'https://server.test/', createWorker, onProgress };
  const encoder = await QuestionEncoder.load(model.manifest, options);
  assert.equal(requests.length, 3);
  assert.deepEqual([...(await encoder.encode('abc'))], [3, 3, 3, 3]);
  assert.equal(encoder.device, 'cpu');
  assert.ok(reported.includes('thrown at progress') && reported.includes('thrown at fallback') && reported.includes('thrown at ready'));
  encoder.dispose();
});
