import assert from 'node:assert/strict';
import test from 'node:test';
import { fetchFile } from '../dist/weights/fetch-file.js';
import { fakeFetch, fileOf, memoryCache, someBytes } from './helpers.mjs';

const bytes = someBytes(3000);
const file = fileOf(bytes, 'https://server.test/v1/model/files/abc/question_encoder.q8.safetensors');
const spoiled = bytes.with(1234, 0xff);

async function run(cache, answer) {
  const events = [];
  const fake = fakeFetch(() => answer());
  try {
    const got = await fetchFile(file, cache, (event) => events.push(event));
    return { got, events, requests: fake.calls.length };
  } finally {
    fake.restore();
  }
}

test('a first download is checked and kept', async () => {
  const cache = memoryCache();
  const { got, events } = await run(cache, () => new Response(bytes));
  assert.deepEqual(got, bytes);
  assert.deepEqual(cache.kept.get(file.sha256), bytes);
  assert.deepEqual(events.at(-1), { status: 'done', file: 'question_encoder.q8.safetensors', total: 3000, source: 'network' });
});

test('a kept file is not downloaded again', async () => {
  const { events, requests } = await run(memoryCache({ [file.sha256]: bytes }), () => assert.fail('no request expected'));
  assert.equal(requests, 0);
  assert.deepEqual(events.map((event) => event.status), ['initiate', 'done']);
});

test('a spoiled cache entry is replaced', async () => {
  const cache = memoryCache({ [file.sha256]: spoiled });
  const { got, requests } = await run(cache, () => new Response(bytes));
  assert.deepEqual(got, bytes);
  assert.equal(requests, 1);
  assert.deepEqual(cache.kept.get(file.sha256), bytes);
});

test('a spoiled download is an IntegrityError that names the file and both sums, and is not kept', async () => {
  const cache = memoryCache();
  await assert.rejects(
    run(cache, () => new Response(spoiled)),
    (error) =>
      error.name === 'IntegrityError' &&
      error.file === 'question_encoder.q8.safetensors' &&
      error.expected === file.sha256 &&
      error.got === fileOf(spoiled).sha256 &&
      error.message.includes(error.got),
  );
  assert.equal(cache.kept.size, 0);
});

test('without crypto.subtle the error says what to do', async () => {
  const original = Object.getOwnPropertyDescriptor(globalThis, 'crypto');
  Object.defineProperty(globalThis, 'crypto', { value: {}, configurable: true });
  try {
    await assert.rejects(run(memoryCache(), () => new Response(bytes)), (error) => error.name === 'InsecureContextError' && /https/.test(error.fix));
  } finally {
    Object.defineProperty(globalThis, 'crypto', original);
  }
});

test('percent signs in a file name are decoded, and stay where they stand for nothing', async () => {
  for (const [name, said] of [['mod%C3%A8le%20q8.bin', 'modèle q8.bin'], ['100%.bin', '100%.bin'], ['%ff.bin', '%ff.bin']]) {
    const { restore } = fakeFetch(() => new Response(bytes));
    const events = [];
    try {
      const got = await fetchFile({ ...file, url: `https://server.test/files/${name}` }, memoryCache(), (event) => events.push(event));
      assert.deepEqual(got, bytes);
    } finally {
      restore();
    }
    assert.deepEqual([...new Set(events.map((event) => event.file))], [said]);
  }
});
