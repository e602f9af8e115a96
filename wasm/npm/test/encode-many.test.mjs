import assert from 'node:assert/strict';
import test from 'node:test';
import { QuestionEncoder, SearchClient } from '../dist/index.js';
import { FakeWorker, tinyModel, withGpu } from './fake-worker.mjs';
import { fakeFetch } from './helpers.mjs';

/** An encoder of the tiny model, and the texts that its worker was asked to encode. */
async function load(t, script = {}, options = {}) {
  const { manifest, restore } = tinyModel();
  t.after(restore);
  const texts = [];
  const createWorker = () => {
    const worker = new FakeWorker(script);
    const post = worker.postMessage.bind(worker);
    worker.postMessage = (command) => {
      if (command.type === 'encode') texts.push(command.text);
      post(command);
    };
    return worker;
  };
  const encoder = await QuestionEncoder.load(manifest, { device: 'cpu', baseUrl: 'https://server.test/', createWorker, ...options });
  t.after(() => encoder.dispose());
  return { encoder, texts };
}

test('several questions are encoded in their order', async (t) => {
  const { encoder } = await load(t);
  const vectors = await encoder.encodeMany(['a', 'bb', 'ccc']);
  assert.deepEqual(vectors.map((vector) => vector[0]), [1, 2, 3]);
  assert.deepEqual(await encoder.encodeMany([]), []);
});

test('a question that is asked meanwhile waits for one of them', async (t) => {
  const { encoder, texts } = await load(t);
  const many = encoder.encodeMany(['a', 'b', 'c', 'd']);
  await encoder.encode('now');
  assert.deepEqual(texts.slice(0, 2), ['a', 'now']);
  await many;
  assert.equal(texts.length, 5);
});

test('a signal ends the rest, and so does an error', async (t) => {
  const { encoder, texts } = await load(t);
  const stop = new AbortController();
  const many = encoder.encodeMany(['a', 'b', 'c'], { signal: stop.signal });
  stop.abort(new Error('enough'));
  await assert.rejects(many, { message: 'enough' });
  const failing = await load(t, { cpu: { encode: 'the question is empty' } });
  await assert.rejects(failing.encoder.encodeMany(['', 'b']), (error) => error.name === 'EncoderError' && /is empty/.test(error.message));
  assert.deepEqual(failing.texts, ['']);
  assert.ok(texts.length <= 1);
});

test('tokens are counted, also when the GPU is lost meanwhile', async (t) => {
  const { encoder } = await load(t);
  assert.equal(await encoder.countTokens('who won'), 7);
  withGpu(t);
  const { encoder: lost } = await load(t, { webgpu: { count: 'fatal' } }, { device: 'webgpu' });
  assert.equal(await lost.countTokens('who'), 3);
  assert.equal(lost.device, 'cpu');
});

test('a client encodes and counts with nothing sent', async (t) => {
  const { manifest, restore } = tinyModel();
  const files = globalThis.fetch;
  const server = fakeFetch((url, init) =>
    url.endsWith('/v1/model') ? Response.json(manifest) : files(`https://server.test/${url.split('/').pop()}`, init),
  );
  t.after(() => {
    server.restore();
    restore();
  });
  const client = SearchClient.create('https://server.test/', { device: 'cpu', createWorker: () => new FakeWorker({}) });
  assert.deepEqual((await client.encodeMany(['a', 'bb'])).map((vector) => vector[0]), [1, 2]);
  assert.equal(await client.countTokens('who'), 3);
  assert.ok(server.calls.every(({ init }) => init.method === undefined));
  client.dispose();
  await assert.rejects(client.encodeMany(['a']), { name: 'DisposedError' });
});
