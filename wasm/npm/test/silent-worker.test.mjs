import assert from 'node:assert/strict';
import test from 'node:test';
import { QuestionEncoder } from '../dist/index.js';
import { download } from '../dist/weights/download.js';
// Parts that are imported when they are needed, so that time stands still for none of them.
import '../dist/encoder/gpu.js';
import '../dist/weights/read-manifest.js';
import '../dist/worker/explain-failure.js';
import '../dist/worker/shared-source.js';
import { Silence } from '../dist/wire/silence.js';
import { FakeWorker, tinyModel } from './fake-worker.mjs';
import { fakeFetch, fileOf, someBytes } from './helpers.mjs';

/** Before the tests put another in its place. */
const realTimeout = globalThis.setTimeout;

/** Lets time pass, a second at a step, until the promise is settled; fails after ten minutes: that is for ever. */
async function inTime(t, promise) {
  const start = Date.now();
  let settled = false;
  promise.then(() => (settled = true), () => (settled = true));
  for (let step = 0; !settled; step++) {
    assert.ok(step < 600, 'still waiting after ten minutes');
    await new Promise((resolve) => realTimeout(resolve, 2));
    if (!settled) t.mock.timers.tick(1000);
  }
  return Math.round((Date.now() - start) / 1000);
}

/** Waits until a worker got a command; time goes by milliseconds, so that a busy machine does not use up the worker's own. */
async function told(t, worker, command) {
  for (let step = 0; !worker()?.commands.includes(command); step++) {
    assert.ok(step < 10_000, `no worker was told to ${command}`);
    await new Promise((resolve) => realTimeout(resolve, 2));
    t.mock.timers.tick(1);
  }
}

function load(t, script, options = {}) {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const workers = [];
  const events = [];
  const { manifest } = tinyModel();
  const promise = QuestionEncoder.load(manifest, {
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
  promise.catch(() => undefined);
  return { promise, workers, events };
}

function withGpu(t) {
  const original = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  Object.defineProperty(globalThis, 'navigator', { value: { userAgent: 'test', gpu: { requestAdapter: async () => ({}) } }, configurable: true });
  t.after(() => (original ? Object.defineProperty(globalThis, 'navigator', original) : delete globalThis.navigator));
}

test('a worker that says no hello is an EncoderError within ten seconds, with what to do', async (t) => {
  const { promise, workers } = load(t, { hello: 'never' });
  assert.ok((await inTime(t, promise)) <= 12);
  await assert.rejects(
    promise,
    (error) => error.name === 'EncoderError' && error.code === 'worker_silent' && /said nothing for 10 s/.test(error.message) && /dpr-web\/worker/.test(error.fix) && /createWorker/.test(error.fix),
  );
  assert.ok(workers.every((worker) => worker.terminated));
});

test('the time for the hello can be chosen', async (t) => {
  const { promise } = load(t, { hello: 'never' }, { startTimeout: 3000 });
  assert.ok((await inTime(t, promise)) <= 5);
  await assert.rejects(promise, /said nothing for 3 s/);
});

test('the error names the script that the browser fetched for the worker', async (t) => {
  const entries = (type) =>
    type !== 'resource'
      ? []
      : [
          { name: 'https://page.test/assets/before.js', initiatorType: 'other', startTime: -1 },
          { name: 'https://page.test/assets/my-worker-3f2a.js', initiatorType: 'other', startTime: Infinity },
          { name: 'https://page.test/favicon.ico', initiatorType: 'other', startTime: Infinity },
          { name: 'https://page.test/app.js', initiatorType: 'script', startTime: Infinity },
        ];
  t.mock.method(performance, 'getEntriesByType', entries);
  const { promise } = load(t, { hello: 'never' });
  await inTime(t, promise);
  await assert.rejects(promise, /the worker https:\/\/page\.test\/assets\/my-worker-3f2a\.js said nothing/);
});

test('the package\'s own worker is named by where it should be', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const workers = [];
  globalThis.Worker = class extends FakeWorker {
    constructor(url, { name, type }) {
      super({ hello: 'never' });
      workers.push([String(url), name, type]);
    }
  };
  t.after(() => delete globalThis.Worker);
  const { manifest } = tinyModel();
  const promise = QuestionEncoder.load(manifest, { device: 'cpu', baseUrl: 'https://server.test/' });
  await inTime(t, promise);
  const address = new URL('../dist/worker/worker-cpu.js', import.meta.url).href;
  await assert.rejects(promise, (error) => error.name === 'EncoderError' && error.message.includes(address));
  assert.deepEqual(workers, [[address, 'dpr-web-cpu', 'module']]);
});

for (const work of ['init', 'load']) {
  test(`a worker that is silent after its hello when it should ${work} is an EncoderError that names it`, async (t) => {
    const { promise, workers } = load(t, { cpu: { [work]: 'never' } });
    assert.ok((await inTime(t, promise)) <= 180);
    await assert.rejects(
      promise,
      (error) => error.name === 'EncoderError' && error.message.includes(`https://page.test/worker.js said nothing`) && error.message.endsWith(work),
    );
    assert.ok(workers.every((worker) => worker.terminated));
  });

  test(`a WebGPU worker that is silent when it should ${work} is replaced by the CPU, also when it was asked for`, async (t) => {
    withGpu(t);
    const { promise, events } = load(t, { webgpu: { [work]: 'never' } }, { device: 'webgpu' });
    assert.ok((await inTime(t, promise)) <= 180);
    const encoder = await promise;
    assert.equal(encoder.device, 'cpu');
    assert.match(events.find((event) => event.status === 'fallback').reason, /said nothing/);
    encoder.dispose();
  });
}

test('workers that are all silent end `device: \'webgpu\'` within the same ten seconds, half of them for WebGPU', async (t) => {
  withGpu(t);
  const { promise, workers, events } = load(t, { hello: 'never' }, { device: 'webgpu' });
  assert.ok((await inTime(t, promise)) <= 12);
  await assert.rejects(promise, { name: 'EncoderError', message: /said nothing for 5 s/ });
  assert.match(events.find(({ status }) => status === 'fallback').reason, /said nothing for 5 s/);
  assert.equal(workers.length, 2);
});

test('a shared worker that is silent, and the tab\'s own after it, end within the same ten seconds', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const original = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  Object.defineProperty(globalThis, 'navigator', { value: { userAgent: 'test', locks: { request: async (_, work) => work() } }, configurable: true });
  const workers = [];
  globalThis.SharedWorker = class {
    constructor() {
      workers.push('shared');
      this.port = { postMessage() {}, close() {} };
    }
  };
  globalThis.Worker = class extends FakeWorker {
    constructor() {
      super({ hello: 'never' });
      workers.push('dedicated');
    }
  };
  t.after(() => {
    delete globalThis.Worker;
    delete globalThis.SharedWorker;
    if (original) Object.defineProperty(globalThis, 'navigator', original);
    else delete globalThis.navigator;
  });
  const { manifest, restore } = tinyModel();
  t.after(restore);
  const promise = QuestionEncoder.load(manifest, { device: 'cpu', baseUrl: 'https://server.test/', worker: 'shared' });
  promise.catch(() => undefined);
  assert.ok((await inTime(t, promise)) <= 12);
  await assert.rejects(promise, { code: 'worker_silent', message: /said nothing for 5 s/ });
  assert.deepEqual(workers, ['shared', 'dedicated']);
});

test('a WebGPU worker that spoke and failed later leaves the CPU\'s worker the whole ten seconds', async (t) => {
  withGpu(t);
  let made = 0;
  const createWorker = () => new FakeWorker(made++ === 0 ? { webgpu: { init: 'no adapter' } } : { hello: 'never' });
  const { promise } = load(t, {}, { device: 'webgpu', createWorker });
  await inTime(t, promise);
  await assert.rejects(promise, /said nothing for 10 s/);
});

test('a question that is never answered is an EncoderError; the one behind it has a worker and a time of its own', async (t) => {
  const { promise, workers } = load(t, { cpu: { encode: 'never' } });
  await inTime(t, promise);
  const encoder = await promise;
  const questions = ['who', 'what'].map((text) => encoder.encode(text));
  for (const question of questions) question.catch(() => undefined);
  for (const [number, question] of questions.entries()) {
    await told(t, () => workers[number], 'encode');
    assert.ok((await inTime(t, question)) <= 61);
    await assert.rejects(question, { name: 'EncoderError', message: /worker\.js said nothing for 60 s after it was told to encode/ });
  }
  assert.equal(workers[0].terminated, true);
});

test('every sign of life gives a worker that loads its whole time again', async (t) => {
  let worker;
  const createWorker = () => (worker = new FakeWorker({ cpu: { load: 'never' } }));
  const { promise } = load(t, {}, { createWorker });
  for (let minute = 0; minute < 5; minute++) {
    for (let second = 0; second < 60; second++) {
      await new Promise((resolve) => setImmediate(resolve));
      t.mock.timers.tick(1000);
    }
    worker.onmessage({ data: { type: 'alive' } });
    assert.equal(worker.terminated, false, `minute ${minute}`);
  }
  await inTime(t, promise);
  await assert.rejects(promise, /said nothing for 120 s after it was told to load/);
});

test('a worker of another release is refused by name', async (t) => {
  const { promise } = load(t, { hello: { protocol: 1 } });
  await inTime(t, promise);
  await assert.rejects(promise, (error) => error.name === 'EncoderError' && error.code === 'worker_version' && /worker\.js is of another release/.test(error.message) && /one release/.test(error.fix));
});

test('a worker that cannot be made is an EncoderError with what to do', async (t) => {
  const createWorker = () => {
    throw new TypeError('This document requires TrustedScriptURL');
  };
  const { promise } = load(t, {}, { createWorker });
  await inTime(t, promise);
  await assert.rejects(promise, (error) => error.name === 'EncoderError' && error.code === 'worker_not_loaded' && /TrustedScriptURL/.test(error.message) && /createWorker/.test(error.fix));
});

test('addresses of modules are handed to the worker as they were given, absolute', async (t) => {
  globalThis.location = { href: 'https://page.test/app/' };
  t.after(() => delete globalThis.location);
  const { promise, workers } = load(t, {}, { wasmUrl: { cpu: '../cpu.wasm' } });
  await inTime(t, promise);
  (await promise).dispose();
  assert.equal(workers[0].wasm, 'https://page.test/cpu.wasm');
});

test('a page\'s own worker finds its module itself unless it is told where', async (t) => {
  const { promise, workers } = load(t, {});
  await inTime(t, promise);
  (await promise).dispose();
  assert.equal(workers[0].wasm, undefined);
});

test('the download ends with the worker that it was for', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const { manifest } = tinyModel();
  const { calls, restore } = fakeFetch((_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))));
  t.after(restore);
  const createWorker = () => new FakeWorker({ hello: 'never' });
  const promise = QuestionEncoder.load(manifest, { device: 'cpu', baseUrl: 'https://server.test/', createWorker });
  await inTime(t, promise);
  await assert.rejects(promise, { name: 'EncoderError' });
  assert.equal(calls.length, 3);
  assert.ok(calls.every(({ init }) => init.signal.aborted));
});

test('a server that never answers is a DownloadError', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const { restore } = fakeFetch((_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))));
  t.after(restore);
  const manifest = QuestionEncoder.load('https://server.test/v1/model', { device: 'cpu' });
  assert.ok((await inTime(t, manifest)) <= 32);
  await assert.rejects(manifest, (error) => error.name === 'DownloadError' && error.code === 'timeout' && /within 30 s/.test(error.message));
});

test('a download that stalls three times is a DownloadError that says how far it got', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const bytes = someBytes(1000);
  const stalling = (signal) =>
    new ReadableStream({
      start(controller) {
        controller.enqueue(bytes.slice(0, 100));
        signal.addEventListener('abort', () => controller.error(signal.reason));
      },
    });
  const { calls, restore } = fakeFetch((_, { signal }) => new Response(stalling(signal), { status: 206 }));
  t.after(restore);
  const promise = download('weights.bin', fileOf(bytes), () => undefined, undefined);
  assert.ok((await inTime(t, promise)) <= 96);
  await assert.rejects(promise, (error) => error.name === 'DownloadError' && error.code === 'stalled' && /nothing came for 30 s after 300 of 1000 bytes/.test(error.message));
  assert.equal(calls.length, 3);
});

test('what a sleeping machine missed is no silence', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const silence = new Silence();
  let noticed = 0;
  silence.wait(10_000, () => noticed++);
  // The clock goes on while timers stand still.
  t.mock.timers.setTime(Date.now() + 3_600_000);
  t.mock.timers.tick(1);
  assert.equal(noticed, 0);
  t.mock.timers.tick(9_500);
  assert.equal(noticed, 0);
  t.mock.timers.tick(600);
  assert.equal(noticed, 1);
});
