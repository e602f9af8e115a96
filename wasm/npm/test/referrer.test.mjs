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
    await startModule(module, 'https://page.test/cpu.wasm', () => undefined);
    assert.deepEqual(calls.map(({ url }) => url), ['https://page.test/cpu.wasm']);
    silentAboutThePage(calls);
    assert.equal(handed.module_or_path, answer);
    await startModule({ ...module, address: () => new URL('https://page.test/beside.wasm') }, undefined, () => undefined);
    assert.equal(calls[1].url, 'https://page.test/beside.wasm');
  } finally {
    restore();
  }
});

test('a module that is not where it should be is named, with what to do', async () => {
  const { restore } = fakeFetch(() => new Response('', { status: 404 }));
  try {
    await assert.rejects(
      startModule({ init: () => assert.fail('nothing to start') }, 'https://page.test/cpu.wasm', () => undefined),
      (error) => /https:\/\/page\.test\/cpu\.wasm .*404/.test(error.message) && /wasmUrl/.test(error.fix),
    );
  } finally {
    restore();
  }
});
