import assert from 'node:assert/strict';
import test, { afterEach } from 'node:test';
import { QuestionEncoder } from '../dist/index.js';
import { FakeWorker, tinyModel } from './fake-worker.mjs';

const models = [];
afterEach(() => models.splice(0).forEach((model) => model.restore()));

const load = (script, options = {}) => {
  const workers = [];
  const events = [];
  const model = tinyModel();
  models.push(model);
  const promise = QuestionEncoder.load(model.manifest, {
    device: 'cpu',
    baseUrl: 'https://server.test/',
    createWorker: () => {
      const worker = new FakeWorker(script);
      workers.push(worker);
      return worker;
    },
    onProgress: (event) => events.push(event),
    ...options,
  });
  return { promise, workers, events };
};

function withGpu(body) {
  const original = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  Object.defineProperty(globalThis, 'navigator', { value: { userAgent: 'test', gpu: { requestAdapter: async () => ({}) } }, configurable: true });
  return body().finally(() => (original ? Object.defineProperty(globalThis, 'navigator', original) : delete globalThis.navigator));
}

test('questions asked at once are answered in order, each with its own vector', async () => {
  const encoder = await load({}).promise;
  const order = [];
  const ask = async (text) => {
    const vector = await encoder.encode(text);
    order.push(text);
    return vector;
  };
  const vectors = await Promise.all(['a', 'bb', 'ccc'].map(ask));
  assert.deepEqual(order, ['a', 'bb', 'ccc']);
  assert.deepEqual(vectors.map((vector) => vector[0]), [1, 2, 3]);
  encoder.dispose();
});

test('dispose rejects what is pending and what comes later, and ends the worker', async () => {
  const { promise, workers } = load({});
  const encoder = await promise;
  const pending = encoder.encode('a');
  encoder.dispose();
  encoder.dispose();
  await assert.rejects(pending, { name: 'DisposedError' });
  await assert.rejects(encoder.encode('b'), { name: 'DisposedError' });
  assert.ok(workers.every((worker) => worker.terminated));
});

test('without WebGPU, `webgpu` falls back to the CPU and starts no WebGPU worker', async () => {
  const { promise, workers, events } = load({}, { device: 'webgpu' });
  const encoder = await promise;
  assert.equal(encoder.device, 'cpu');
  assert.deepEqual(workers.map((worker) => worker.device), ['cpu']);
  assert.match(events.find((event) => event.status === 'fallback').reason, /no WebGPU/);
  encoder.dispose();
});

test('a WebGPU module that does not start falls back to the CPU', () =>
  withGpu(async () => {
    const { promise, events } = load({ webgpu: { load: 'no WebGPU adapter: limits' } }, { device: 'webgpu' });
    const encoder = await promise;
    assert.equal(encoder.device, 'cpu');
    assert.match(events.find((event) => event.status === 'fallback').reason, /no WebGPU adapter/);
    encoder.dispose();
  }));

test('a GPU lost in the middle: the CPU answers what was pending, in order', () =>
  withGpu(async () => {
    const { promise, workers, events } = load({ webgpu: { encode: 'fatal' } }, { device: 'webgpu' });
    const encoder = await promise;
    assert.equal(encoder.device, 'webgpu');
    const order = [];
    const ask = async (text) => {
      const [first] = await encoder.encode(text);
      order.push(text);
      return first;
    };
    const vectors = await Promise.all(['a', 'bb'].map(ask));
    assert.deepEqual(vectors, [1, 2]);
    assert.deepEqual(order, ['a', 'bb']);
    assert.equal(encoder.device, 'cpu');
    assert.equal(events.filter((event) => event.status === 'fallback').length, 1);
    assert.ok(workers[0].terminated);
    encoder.dispose();
  }));

test('a question that cannot be encoded is an EncoderError and leaves the GPU in use', () =>
  withGpu(async () => {
    const encoder = await load({ webgpu: { encode: 'the question is empty' } }, { device: 'webgpu' }).promise;
    await assert.rejects(encoder.encode(''), (error) => error.name === 'EncoderError' && error.code === 'encoder_failed' && /question is empty/.test(error.message));
    assert.equal(encoder.device, 'webgpu');
    encoder.dispose();
  }));

test('a CPU module that panics is an EncoderError, not a wait for ever', async () => {
  const encoder = await load({ cpu: { encode: 'fatal' } }).promise;
  await assert.rejects(encoder.encode('a'), (error) => error.name === 'EncoderError' && /unreachable/.test(error.message));
  await assert.rejects(encoder.encode('a'), { name: 'EncoderError' });
  encoder.dispose();
});

test('an aborted load ends its worker and rejects with the signal\'s reason', async () => {
  const controller = new AbortController();
  const { promise, workers } = load({ cpu: { load: 'never' } }, { signal: controller.signal });
  setTimeout(() => controller.abort(new Error('enough')), 20);
  await assert.rejects(promise, { message: 'enough' });
  assert.ok(workers.every((worker) => worker.terminated));
});

test('an encoder of another dimension than the manifest\'s is refused', async () => {
  await assert.rejects(load({ cpu: { dim: 3 } }).promise, (error) => error.name === 'EncoderError' && /3 numbers/.test(error.message));
});
