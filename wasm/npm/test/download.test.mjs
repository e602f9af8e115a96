import assert from 'node:assert/strict';
import test from 'node:test';
import { download } from '../dist/weights/download.js';
import { transport } from '../dist/wire/transport.js';
import { brokenBody, fakeFetch, fileOf, someBytes } from './helpers.mjs';

const bytes = someBytes(1000);
const file = fileOf(bytes);

/** Tries again at once. */
const QUICK = transport({ retry: { delay: () => 0 } }, undefined, 'omit');

async function run(handler, signal, requests = QUICK) {
  const events = [];
  const fake = fakeFetch(handler);
  try {
    return { bytes: await download('weights.bin', file, (event) => events.push(event), signal, requests), events, calls: fake.calls };
  } catch (error) {
    error.calls = fake.calls;
    throw error;
  } finally {
    fake.restore();
  }
}

test('a download reports its start and its end', async () => {
  const { bytes: got, events, calls } = await run(() => new Response(bytes));
  assert.deepEqual(got, bytes);
  assert.equal(calls.length, 1);
  assert.deepEqual(events[0], { status: 'download', file: 'weights.bin', total: 1000, resumedAt: 0 });
  assert.deepEqual(events.at(-1), { status: 'progress', file: 'weights.bin', loaded: 1000, total: 1000 });
});

test('a broken connection is taken up where it broke', async () => {
  const { bytes: got, events, calls } = await run((_, _init, call) =>
    call === 1 ? new Response(brokenBody(bytes.slice(0, 400))) : new Response(bytes.slice(400), { status: 206 }),
  );
  assert.deepEqual(got, bytes);
  assert.equal(calls[1].headers.get('range'), 'bytes=400-');
  assert.equal(events.filter((event) => event.status === 'download')[1].resumedAt, 400);
});

test('a server that ignores Range starts over', async () => {
  const { bytes: got } = await run((_, _init, call) => new Response(call === 1 ? brokenBody(bytes.slice(0, 400)) : bytes));
  assert.deepEqual(got, bytes);
});

test('a connection that breaks after the last byte is not asked for more', async () => {
  const { bytes: got, calls } = await run(() => new Response(brokenBody(bytes)));
  assert.deepEqual([got, calls.length], [bytes, 1]);
});

test('a body that ends early is taken up too', async () => {
  const { calls } = await run((_, _init, call) =>
    call === 1 ? new Response(bytes.slice(0, 10)) : new Response(bytes.slice(10), { status: 206 }),
  );
  assert.equal(calls.length, 2);
});

test('three broken connections are a DownloadError that says how far it got', async () => {
  await assert.rejects(
    run(() => new Response(brokenBody(bytes.slice(0, 100)), { status: 206 })),
    (error) => error.name === 'DownloadError' && error.code === 'download_failed' && /broke after 300 of 1000 bytes/.test(error.message) && error.calls.length === 3,
  );
});

test('a missing file is not asked for twice', async () => {
  await assert.rejects(
    run(() => new Response('', { status: 404, statusText: 'Not Found' })),
    (error) => error.name === 'DownloadError' && error.status === 404 && error.calls.length === 1,
  );
});

test('a server that is not there at the moment is asked again', async () => {
  const { bytes: got } = await run((_, _init, call) => (call === 1 ? new Response('', { status: 503 }) : new Response(bytes)));
  assert.deepEqual(got, bytes);
});

test('too many bytes are an IntegrityError', async () => {
  await assert.rejects(run(() => new Response(someBytes(1001))), { name: 'IntegrityError', file: 'weights.bin' });
});

test('an aborted signal ends it with the signal\'s reason', async () => {
  const controller = new AbortController();
  const reason = new Error('enough');
  await assert.rejects(
    run(() => {
      controller.abort(reason);
      return new Response(brokenBody(bytes.slice(0, 1)));
    }, controller.signal),
    reason,
  );
});

test('a file for which there is no memory is a DownloadError, before it is asked for', async (t) => {
  const original = globalThis.Uint8Array;
  t.after(() => (globalThis.Uint8Array = original));
  globalThis.Uint8Array = class extends original {
    constructor(length) {
      if (length === file.bytes) throw new RangeError('Array buffer allocation failed');
      super(length);
    }
  };
  await assert.rejects(
    run(() => assert.fail('no request expected')),
    (error) => error.name === 'DownloadError' && /no memory for its 1000 bytes/.test(error.message) && error.calls.length === 0,
  );
});

test('without further tries one broken connection is enough', async () => {
  await assert.rejects(
    run(() => new Response(brokenBody(bytes.slice(0, 100))), undefined, transport({ retry: 0 }, undefined, 'omit')),
    (error) => error.name === 'DownloadError' && error.calls.length === 1,
  );
});

for (const [header, seconds] of [['2', 2], [new Date(Date.now() + 2000).toUTCString(), 2]]) {
  test(`a server that asks for time (${header.length > 1 ? 'until a date' : 'in seconds'}) gets it`, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const fake = fakeFetch((_, _init, call) =>
      call === 1 ? new Response('', { status: 503, headers: { 'retry-after': header } }) : new Response(bytes),
    );
    t.after(fake.restore);
    const promise = download('weights.bin', file, () => undefined);
    await settle();
    t.mock.timers.tick((seconds - 1.1) * 1000);
    await settle();
    assert.equal(fake.calls.length, 1);
    t.mock.timers.tick(1200);
    assert.deepEqual(await promise, bytes);
    assert.equal(fake.calls.length, 2);
  });
}

test('a server that asks for too much time is an error that says how much', async () => {
  await assert.rejects(
    run(() => new Response('', { status: 429, headers: { 'retry-after': '3600' } })),
    (error) => error.status === 429 && error.retryAfter === 3600 && error.calls.length === 1,
  );
});

/** Lets promises and streams go on. */
async function settle() {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}
