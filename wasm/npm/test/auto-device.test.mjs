import assert from 'node:assert/strict';
import test from 'node:test';
import { QuestionEncoder } from '../dist/index.js';
import { FakeWorker, tinyModel, until, withGpu, withStorage } from './fake-worker.mjs';

/** Loads with `device: 'auto'`, in a browser with a GPU. */
function load(t, script, { isSmall = false, ...options } = {}) {
  const { manifest, restore } = tinyModel();
  t.after(restore);
  // Another encoder of the same vectors.
  if (isSmall) manifest.encoder.config = manifest.encoder.tokenizer;
  const workers = [];
  const events = [];
  const createWorker = () => {
    const worker = new FakeWorker(script);
    workers.push(worker);
    return worker;
  };
  const promise = QuestionEncoder.load(manifest, {
    baseUrl: 'https://server.test/',
    createWorker,
    onProgress: (event) => events.push(event),
    ...options,
  });
  const devices = () => workers.filter((worker) => !worker.terminated).map((worker) => worker.device);
  return { promise, workers, events, devices };
}

for (const [faster, times] of [['webgpu', { cpu: 70, webgpu: 5 }], ['cpu', { cpu: 7, webgpu: 500 }]]) {
  test(`auto starts on the CPU, goes on with ${faster} when it is faster, remembers it, and ends the other`, async (t) => {
    withGpu(t);
    withStorage(t);
    const script = { cpu: { measure: times.cpu }, webgpu: { measure: times.webgpu } };
    const first = load(t, script);
    const encoder = await first.promise;
    assert.equal(encoder.device, 'cpu');
    assert.equal(encoder.dtype, 'q8');
    const { fingerprint, encoder: { config } } = encoder.model;
    const key = `dpr-web:device:${fingerprint} ${config.sha256}`;
    await until(() => localStorage.getItem(key) !== null && first.devices().length === 1);
    assert.equal(encoder.device, faster);
    assert.deepEqual(first.devices(), [faster]);
    assert.deepEqual([...(await encoder.encode('abc'))], [3, 3, 3, 3]);
    const ready = first.events.filter(({ status }) => status === 'ready').map(({ device }) => device);
    assert.deepEqual(ready, faster === 'cpu' ? ['cpu'] : ['cpu', 'webgpu']);
    encoder.dispose();
    const second = load(t, script);
    (await second.promise).dispose();
    assert.deepEqual(second.workers.map((worker) => worker.device), [faster]);
    assert.ok(!second.events.some((event) => event.status === 'measure'));
  });
}

test('what is remembered of a server\'s own encoder does not count for its small one, which has the same fingerprint', async (t) => {
  withGpu(t);
  const storage = withStorage(t);
  const script = { cpu: { measure: 70 }, webgpu: { measure: 5 } };
  const own = load(t, script);
  const encoder = await own.promise;
  await until(() => storage.size === 1 && encoder.device === 'webgpu');
  encoder.dispose();
  const small = load(t, { cpu: { measure: 1 }, webgpu: { measure: 5 } }, { isSmall: true });
  const other = await small.promise;
  assert.equal(other.model.fingerprint, encoder.model.fingerprint);
  await until(() => storage.size === 2);
  assert.deepEqual([other.device, small.events.filter(({ status }) => status === 'measure').length], ['cpu', 2]);
  other.dispose();
});

test('a WebGPU module that is still downloading holds nothing back', async (t) => {
  withGpu(t);
  const { promise, workers } = load(t, { webgpu: { init: 'never' } });
  const encoder = await promise;
  assert.equal(encoder.device, 'cpu');
  assert.equal((await encoder.encode('abc')).length, 4);
  encoder.dispose();
  await until(() => workers.every((worker) => worker.terminated));
});

for (const [what, script, remembered] of [
  ['whose module could not be fetched is tried again at the next visit', { webgpu: { init: 'could not be fetched' } }, undefined],
  ['that fails is remembered to have lost', { webgpu: { load: 'no adapter with such limits' } }, 'cpu'],
]) {
  test(`a GPU ${what}`, async (t) => {
    withGpu(t);
    const storage = withStorage(t);
    const { promise, events } = load(t, script);
    const encoder = await promise;
    await until(() => events.some(({ status }) => status === 'fallback'));
    assert.equal(encoder.device, 'cpu');
    const [entry] = [...storage.values()].map((text) => JSON.parse(text));
    assert.equal(entry?.device, remembered);
    assert.equal((await encoder.encode('abc')).length, 4);
    encoder.dispose();
  });
}

test('questions that wait on the CPU when the GPU takes over are answered there, and the CPU ends after them', async (t) => {
  withGpu(t);
  let ask;
  const workers = [];
  class Counting extends FakeWorker {
    texts = [];

    postMessage(command) {
      super.postMessage(command);
      if (command.type === 'encode') this.texts.push(command.text);
      // While the CPU is timed for the last time, so that they wait when it turns out to be slower.
      if (this.device === 'cpu' && this.commands.filter((type) => type === 'measure').length === 7) ask?.();
    }
  }
  const createWorker = () => {
    workers.push(new Counting({ cpu: { measure: 70 }, webgpu: { measure: 5 } }));
    return workers.at(-1);
  };
  const encoder = await load(t, {}, { createWorker }).promise;
  const asked = new Promise((resolve) => {
    ask = () => {
      ask = undefined;
      resolve(['a', 'bb', 'ccc'].map((text) => encoder.encode(text)));
    };
  });
  const answers = await Promise.all(await asked);
  assert.deepEqual(answers.map(([first]) => first), [1, 2, 3]);
  const [cpu, gpu] = workers;
  assert.deepEqual([cpu.texts, gpu.texts], [['a', 'bb', 'ccc'], []]);
  await until(() => cpu.terminated);
  assert.equal(encoder.device, 'webgpu');
  encoder.dispose();
});

test('timing waits for questions', async (t) => {
  withGpu(t);
  const { promise, workers } = load(t, { cpu: { measure: 70 }, webgpu: { measure: 500 } });
  const encoder = await promise;
  const [cpu] = workers;
  await until(() => cpu.commands.includes('measure'));
  const before = cpu.commands.length;
  await Promise.all(['a', 'b', 'c'].map((text) => encoder.encode(text)));
  assert.deepEqual(cpu.commands.slice(before, before + 3), ['encode', 'encode', 'encode']);
  encoder.dispose();
});

for (const [what, options, browser] of [
  ['`measure: \'never\'`', { measure: 'never' }, {}],
  ['a browser that saves data', {}, { connection: { saveData: true } }],
]) {
  test(`with ${what} no WebGPU worker is started`, async (t) => {
    withGpu(t, browser);
    const { promise, workers } = load(t, {}, options);
    const encoder = await promise;
    await encoder.encode('abc');
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(workers.map((worker) => worker.device), ['cpu']);
    encoder.dispose();
  });
}

test('disposing ends both devices while they are timed, and nothing is remembered', async (t) => {
  withGpu(t);
  const storage = withStorage(t);
  const { promise, workers, events } = load(t, { webgpu: { load: 'never' } });
  const encoder = await promise;
  await until(() => workers.length === 2 && workers[1].commands.includes('load'));
  encoder.dispose();
  await until(() => workers.every((worker) => worker.terminated));
  assert.equal(storage.size, 0);
  assert.ok(!events.some(({ status }) => status === 'fallback'));
});
