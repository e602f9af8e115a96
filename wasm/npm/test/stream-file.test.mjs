import assert from 'node:assert/strict';
import test from 'node:test';
import { chunksOf } from '../dist/weights/chunks.js';
import { openStreamCache } from '../dist/weights/stream-cache.js';
import { streamFile } from '../dist/weights/stream-file.js';
import { transport } from '../dist/wire/transport.js';
import { streamEncoder } from '../dist/worker/stream-encoder.js';
import { brokenBody, cachesInMemory, fakeFetch, fileOf, someBytes } from './helpers.mjs';

const SIZE = 1000;
const bytes = someBytes(3500);
const pieces = [0, 1, 2, 3].map((at) => bytes.slice(at * SIZE, (at + 1) * SIZE));
const NAME = 'question_encoder.q8.safetensors';
const file = {
  ...fileOf(bytes, `https://server.test/v1/model/files/abc/${NAME}`),
  chunks: { bytes: SIZE, sha256: pieces.map((piece) => fileOf(piece).sha256) },
};
const spoiled = bytes.with(2345, 0xff);

/** A body of pieces that end nowhere where parts do. */
const slowBody = (all, step = 777) =>
  new ReadableStream({
    start(controller) {
      for (let at = 0; at < all.length; at += step) controller.enqueue(all.slice(at, at + step));
      controller.close();
    },
  });

/** Locks of an origin with one tab. */
const locks = {
  request: async (_name, { signal }, work) => {
    signal?.throwIfAborted();
    return work();
  },
};

/** A cache in memory that reads streams, as the Cache API does: one that fails is not kept. */
function browserCache() {
  const caches = cachesInMemory(async (map, key, response) => {
    const kept = new Uint8Array(await response.arrayBuffer());
    map.set(key, { clone: () => new Response(kept) });
  });
  return { map: caches.map, open: caches.open };
}

/** Streams the file with these answers; `judge` is told whether the whole is right. */
async function run(answer, { cache = browserCache(), isRight = true, change = {}, signal, retry = 2, stallTimeout } = {}) {
  const events = [];
  const fake = fakeFetch(answer);
  const requests = transport({ retry: { limit: retry, delay: () => 1 }, ...(stallTimeout && { stallTimeout }) }, undefined, 'same-origin');
  const wanted = { ...file, ...change };
  const stream = streamFile(wanted, chunksOf(wanted), await openStreamCache(cache.open), locks, (event) => events.push(event), requests, signal);
  const got = [];
  try {
    for await (const part of stream.parts) got.push(part);
    await stream.arrived;
    await stream.judge(isRight);
    return { got, events, calls: fake.calls, cache };
  } finally {
    await stream.judge(false);
    fake.restore();
  }
}

const kept = async ({ map }) => (map.size ? new Uint8Array(await [...map.values()][0].clone().arrayBuffer()) : undefined);

test('parts come in order, each checked, and the file is kept', async () => {
  const { got, events, cache, calls } = await run(() => new Response(slowBody(bytes)));
  assert.deepEqual(got, pieces);
  assert.deepEqual(await kept(cache), bytes);
  assert.deepEqual(events.map(({ status }) => status).filter((status) => status !== 'progress'), ['initiate', 'download', 'done']);
  const again = await run(() => assert.fail('no request expected'), { cache });
  assert.deepEqual(again.got, pieces);
  assert.equal(again.events.at(-1).source, 'cache');
  assert.equal(calls.length, 1);
});

test('a cache that gives up in the middle, as a full one does, keeps nothing, and the file comes all the same', async () => {
  const full = cachesInMemory(async (_map, _key, response) => {
    const reader = response.body.getReader();
    await reader.read();
    await reader.cancel(new Error('QuotaExceededError'));
    throw new DOMException('full', 'QuotaExceededError');
  });
  const { got, calls, cache } = await run(() => new Response(slowBody(bytes)), { cache: full });
  assert.deepEqual([got, calls.length], [pieces, 1]);
  assert.equal(await kept(cache), undefined);
});

test('a part is handed on before the next has come', async () => {
  let more;
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(bytes.slice(0, 1500));
      more = () => {
        controller.enqueue(bytes.slice(1500));
        controller.close();
      };
    },
  });
  const fake = fakeFetch(() => new Response(body));
  const requests = transport({}, undefined, 'same-origin');
  const stream = streamFile(file, file.chunks, await openStreamCache(browserCache().open), locks, () => undefined, requests);
  const reader = stream.parts.getReader();
  await stream.begun;
  assert.deepEqual((await reader.read()).value, pieces[0]);
  more();
  assert.deepEqual((await reader.read()).value, pieces[1]);
  await stream.judge(false);
  fake.restore();
});

test('a wrong part is an error that names the file, the part and both sums, and nothing is kept', async () => {
  const cache = browserCache();
  let calls = 0;
  const answer = () => {
    calls += 1;
    return new Response(slowBody(spoiled));
  };
  await assert.rejects(
    run(answer, { cache }),
    (error) =>
      error.name === 'IntegrityError' &&
      error.file === NAME &&
      error.expected === file.chunks.sha256[2] &&
      error.got === `${fileOf(spoiled.slice(2000, 3000)).sha256} in part 3 of 4` &&
      error.fix.includes('Reload'),
  );
  assert.equal(calls, 1);
  assert.equal(cache.map.size, 0);
});

test('a file whose parts are right and whose whole is not is not kept, nor left where it was kept', async () => {
  const { cache } = await run(() => new Response(bytes), { isRight: false });
  assert.equal(cache.map.size, 0);
  const whole = await run(() => new Response(bytes));
  await run(() => assert.fail('no request expected'), { cache: whole.cache, isRight: false });
  assert.equal(whole.cache.map.size, 0);
});

test('a spoiled cache entry is replaced, and no part is handed on twice', async () => {
  const { cache } = await run(() => new Response(bytes));
  cache.map.set([...cache.map.keys()][0], { clone: () => new Response(spoiled) });
  const { got, calls } = await run(() => new Response(bytes), { cache });
  assert.deepEqual(got, pieces);
  assert.equal(calls.length, 1);
  assert.deepEqual(await kept(cache), bytes);
});

for (const [title, rest] of [
  ['goes on where it broke', (range) => new Response(bytes.slice(range), { status: 206 })],
  ['comes from the beginning where a server sends no parts', () => new Response(bytes)],
]) {
  test(`a download that breaks within a part ${title}`, async () => {
    const { got, calls, cache } = await run((_url, init, call) => {
      if (call === 1) return new Response(brokenBody(bytes.slice(0, 1234)));
      return rest(Number(/bytes=(\d+)-/.exec(new Headers(init.headers).get('range'))[1]));
    });
    assert.deepEqual(got, pieces);
    assert.equal(calls[1].headers.get('range'), 'bytes=1234-');
    assert.deepEqual(await kept(cache), bytes);
  });
}

test('a download that stalls is tried again, and then an error', async () => {
  const stalled = () => new Response(new ReadableStream({ start: (controller) => controller.enqueue(bytes.slice(0, 10)) }));
  await assert.rejects(run(stalled, { retry: 1, stallTimeout: 20 }), { name: 'DownloadError', code: 'stalled' });
});

test('too many bytes, too few and an answer without a file are errors', async () => {
  await assert.rejects(run(() => new Response(someBytes(4000))), { name: 'IntegrityError' });
  await assert.rejects(run(() => new Response(bytes.slice(0, 2000)), { retry: 0 }), { name: 'DownloadError' });
  await assert.rejects(run(() => new Response('', { status: 404 })), { name: 'DownloadError', status: 404 });
});

test('a signal ends the download with its reason', async () => {
  const stop = new AbortController();
  const answer = (_url, init) => {
    setTimeout(() => stop.abort(new Error('enough')), 5);
    return new Response(new ReadableStream({ start: (controller) => init.signal.addEventListener('abort', () => controller.error(init.signal.reason)) }));
  };
  await assert.rejects(run(answer, { signal: stop.signal }), { message: 'enough' });
});

test('sums that do not fit the file are as good as none', () => {
  assert.equal(chunksOf(file), file.chunks);
  const { chunks } = file;
  for (const wrong of [undefined, {}, { ...chunks, bytes: 0 }, { ...chunks, bytes: 1.5 }, { ...chunks, bytes: 2 ** 30 }, { ...chunks, sha256: chunks.sha256.slice(1) }, { ...chunks, sha256: ['x', ...chunks.sha256.slice(1)] }, { ...chunks, sha256: 'x' }]) {
    assert.equal(chunksOf({ ...file, chunks: wrong }), undefined);
  }
});

test('an encoder is built of the parts, and is given up when the whole is another file', async () => {
  for (const sha256 of [file.sha256, '0'.repeat(64)]) {
    const log = [];
    const EncoderBuilder = {
      begin: async (config, tokenizer, length) => {
        log.push(`begin ${config} ${tokenizer} ${length}`);
        return { push: (part) => log.push(part.length), sha256: () => sha256, finish: () => 'encoder', free: () => log.push('free') };
      },
    };
    const cache = browserCache();
    const fake = fakeFetch(() => new Response(bytes));
    const weights = streamFile(file, file.chunks, await openStreamCache(cache.open), locks, () => undefined, transport({}, undefined, 'same-origin'));
    const made = streamEncoder({ EncoderBuilder }, { config: 'c', tokenizer: 't', weights }, () => undefined);
    if (sha256 === file.sha256) {
      assert.equal(await made, 'encoder');
      await weights.judge(true);
      assert.deepEqual(log, ['begin c t 3500', 1000, 1000, 1000, 500]);
      assert.equal(cache.map.size, 1);
    } else {
      await assert.rejects(made, { name: 'IntegrityError', expected: file.sha256, got: sha256 });
      assert.equal(log.at(-1), 'free');
      await weights.judge(false);
      assert.equal(cache.map.size, 0);
    }
    fake.restore();
  }
});
