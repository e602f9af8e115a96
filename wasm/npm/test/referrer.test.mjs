import assert from 'node:assert/strict';
import test from 'node:test';
import { QuestionEncoder, SearchClient } from '../dist/index.js';
import { startModule } from '../dist/worker/wasm-module.js';
import { FakeWorker, tinyModel } from './fake-worker.mjs';
import { fakeFetch } from './helpers.mjs';

// A page may keep the question in its own address, `/?q=…`, which browsers send along as the referrer.
const silentAboutThePage = (calls) => {
  for (const { url, init } of calls) assert.equal(init.referrerPolicy, 'no-referrer', url);
};

/** A server of the tiny model that answers every search with nothing. */
function tinyServer() {
  const { manifest } = tinyModel();
  const files = globalThis.fetch;
  return fakeFetch((url, init) => {
    if (url.endsWith('/v1/model')) return Response.json(manifest);
    if (url.endsWith('/v1/search')) return Response.json({ hits: [], took_ms: 1 });
    return files(`https://server.test/${url.split('/').pop()}`, init);
  });
}

test('no request of a search client has a referrer: manifest, model files, search', async () => {
  const server = tinyServer();
  try {
    const client = await SearchClient.connect('https://server.test/', { device: 'cpu', createWorker: () => new FakeWorker({}) });
    await client.search('who');
    client.dispose();
    assert.equal(server.calls.length, 5);
    silentAboutThePage(server.calls);
  } finally {
    server.restore();
  }
});

test('no request of a question encoder has a referrer: manifest, model files', async () => {
  const server = tinyServer();
  try {
    (await QuestionEncoder.load('https://server.test/v1/model', { device: 'cpu', createWorker: () => new FakeWorker({}) })).dispose();
    assert.equal(server.calls.length, 4);
    silentAboutThePage(server.calls);
  } finally {
    server.restore();
  }
});

test('the worker\'s request for its module has no referrer, and the module is handed the answer', async () => {
  const answer = new Response('module');
  const { calls, restore } = fakeFetch(() => answer);
  try {
    let handed;
    const module = { init: async (input) => void (handed = input), address: () => assert.fail('an address was handed in') };
    await startModule(module, { wasm: 'https://page.test/cpu.wasm' }, () => undefined);
    assert.deepEqual(calls.map(({ url }) => url), ['https://page.test/cpu.wasm']);
    silentAboutThePage(calls);
    assert.equal(handed.module_or_path, answer);
    await startModule({ ...module, address: () => new URL('https://page.test/beside.wasm') }, {}, () => undefined);
    assert.equal(calls[1].url, 'https://page.test/beside.wasm');
  } finally {
    restore();
  }
});

test('every part of a module that arrives is a sign of life, once a second', async (t) => {
  t.mock.timers.enable({ apis: ['Date'] });
  const body = new ReadableStream({
    pull(controller) {
      t.mock.timers.tick(400);
      controller.enqueue(new Uint8Array(10));
      if (Date.now() > 100_000) controller.close();
    },
  });
  const { restore } = fakeFetch(() => new Response(body));
  t.after(restore);
  let parts = 0;
  let bytes;
  const module = { init: async ({ module_or_path }) => void (bytes = (await module_or_path.arrayBuffer()).byteLength) };
  await startModule(module, { wasm: 'https://page.test/cpu.wasm' }, () => parts++);
  assert.ok(parts > 60 && parts <= 102, `${parts}`);
  assert.ok(bytes > 2000);
});

test('a module that is not where it should be is named, with what to do', async () => {
  const { restore } = fakeFetch(() => new Response('', { status: 404 }));
  try {
    await assert.rejects(
      startModule({ init: () => assert.fail('nothing to start') }, { wasm: 'https://page.test/cpu.wasm' }, () => undefined),
      (error) => /https:\/\/page\.test\/cpu\.wasm .*404/.test(error.message) && /wasmUrl/.test(error.fix),
    );
  } finally {
    restore();
  }
});

for (const [browser, message] of [
  ['Chromium', "WebAssembly.instantiateStreaming(): Refused to compile or instantiate WebAssembly module because 'unsafe-eval' is not an allowed source of script"],
  ['Firefox', 'call to WebAssembly.instantiateStreaming() blocked by CSP'],
]) {
  test(`a policy without wasm-unsafe-eval is named (${browser})`, async () => {
    const { restore } = fakeFetch(() => new Response('module'));
    try {
      const module = { init: async () => { throw new WebAssembly.CompileError(message); } };
      await assert.rejects(
        startModule(module, { wasm: 'https://page.test/cpu.wasm' }, () => undefined),
        (error) => error.code === 'wasm_blocked_by_csp' && /'wasm-unsafe-eval'/.test(error.fix),
      );
    } finally {
      restore();
    }
  });
}

test('what the worker says is wrong comes to the page with its code and fix', async (t) => {
  const { manifest, restore } = tinyModel();
  t.after(restore);
  class Failing extends FakeWorker {
    postMessage(command) {
      if (command.type !== 'init') super.postMessage(command);
      else setTimeout(() => this.onmessage({ data: { type: 'failed', id: command.id, message: 'blocked', fix: 'allow it', code: 'wasm_blocked_by_csp' } }), 1);
    }
  }
  await assert.rejects(
    QuestionEncoder.load(manifest, { device: 'cpu', baseUrl: 'https://server.test/', createWorker: () => new Failing({}) }),
    (error) => error.name === 'EncoderError' && error.code === 'wasm_blocked_by_csp' && error.fix === 'allow it',
  );
});
