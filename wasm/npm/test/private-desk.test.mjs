// What a worker keeps of private search, and that it is freed with the rest.
import assert from 'node:assert/strict';
import test from 'node:test';
import { deflateRawSync } from 'node:zlib';
import { Engine } from '../dist/worker/engine.js';
import { PrivateDesk } from '../dist/worker/private/desk.js';

/** A module whose objects are noted by their names while they are not freed. */
function fakeModule() {
  const kept = [];
  const made = (name, more = {}) => {
    kept.push(name);
    return { ...more, free: () => kept.splice(kept.indexOf(name), 1) };
  };
  const blurred = { dim: 4, codeLength: 6, ask: () => made('question', { sent: new Uint8Array(2) }) };
  const manifest = { version: 'v', model: 'm', dims: 4, files: [], traffic: () => [1, 2, 3, 4] };
  const tables = { ask: () => ({ message: new Uint8Array(3), search: () => made('search') }) };
  const module = {
    Blurred: { read: () => made('projection', blurred) },
    PrivateTables: { read: () => made('manifest', manifest) },
    EncryptedTables: {
      read(manifest) {
        manifest.free();
        return made('tables', tables);
      },
    },
  };
  return { module, kept };
}

const CALLS = [
  { name: 'projection' },
  { name: 'blur', search: 1 },
  { name: 'tables' },
  { name: 'files', files: [] },
  { name: 'ask', search: 2 },
  // The manifest of newer tables.
  { name: 'tables' },
];

test('an engine that is freed frees what private search keeps, whose next steps are refused', async () => {
  const { module, kept } = fakeModule();
  const cpu = {
    init: async () => undefined,
    address: () => new URL('https://page.test/cpu.wasm'),
    privateDesk: () => new PrivateDesk(module),
  };
  const engine = new Engine({ cpu }, assert.fail, async () => new Response(''));
  const run = async (command) => {
    const replies = [];
    await engine.run({ id: 1, model: '', ...command }, (reply) => reply.type !== 'alive' && replies.push(reply));
    return replies[0];
  };
  assert.equal((await run({ type: 'init', device: 'cpu' })).type, 'done');
  for (const call of CALLS) assert.equal((await run({ type: 'private', call })).type, 'private', call.name);
  assert.deepEqual(kept.toSorted(), ['manifest', 'projection', 'question', 'search', 'tables']);
  engine.free();
  assert.deepEqual(kept, []);
  for (const call of [{ name: 'blur', search: 3 }, { name: 'ask', search: 3 }, { name: 'candidates', search: 1 }, { name: 'files', files: [] }]) {
    const { type, message } = await run({ type: 'private', call });
    assert.equal(type, 'failed', call.name);
    assert.match(message, /came before the one that it needs/);
  }
  engine.free();
  assert.deepEqual(kept, []);
});

/** A delta of two removed passages that says so many added ones, of 4 coordinates each, with these texts. */
function deltaOf(added, texts) {
  const head = Buffer.alloc(56 + 2 * 4 + added * 4);
  head.writeUInt16LE(4, 6);
  head.writeUInt32LE(2, 48);
  head.writeUInt32LE(added, 52);
  return new Uint8Array(Buffer.concat([head, texts]));
}

test('a delta is taken in only with as many passages as it adds, whatever is searched for', async () => {
  const taken = [];
  const tables = { free: () => undefined, update: (delta) => taken.push(delta.length) };
  const manifest = { version: 'v', model: 'm', dims: 4, files: [], traffic: () => [1, 2, 3, 4], free: () => undefined };
  const module = { Blurred: {}, PrivateTables: { read: () => manifest }, EncryptedTables: { read: () => tables } };
  const desk = new PrivateDesk(module);
  await desk.answer({ name: 'tables' });
  await desk.answer({ name: 'files', files: [] });
  const update = (delta) => desk.answer({ name: 'update', delta });
  const line = (id) => `${JSON.stringify({ id, title: 'Title', text: 'a "text" of 한국' })}\n`;
  const packed = deflateRawSync(line('a') + line('b'));
  const good = [deltaOf(2, packed), deltaOf(0, deflateRawSync(''))];
  for (const delta of good) await update(delta);
  // What is too short for a head is for the module to refuse.
  await update(new Uint8Array(10));
  assert.deepEqual(taken, [...good.map(({ length }) => length), 10]);
  const wrong = {
    'no texts': deltaOf(2, Buffer.alloc(0)),
    'cut texts': deltaOf(2, packed.subarray(0, packed.length - 4)),
    'a text too few': deltaOf(3, packed),
    'a text too many': deltaOf(1, packed),
    'no JSON': deltaOf(1, deflateRawSync('text\n')),
    'no passage': deltaOf(1, deflateRawSync('{"id":1}\n')),
    'no compressed text': deltaOf(1, Buffer.from(line('a'))),
    'more bytes than it has': deltaOf(1, packed).fill(255, 48, 56),
  };
  for (const [name, delta] of Object.entries(wrong)) {
    await assert.rejects(update(delta), { code: 'spoiled_answer' }, name);
  }
  const long = deltaOf(1, deflateRawSync(Buffer.alloc(2 ** 24 + 1, ' ')));
  await assert.rejects(update(long), { code: 'spoiled_answer', message: 'compressed passages have more than 16777216 bytes' });
  await assert.rejects(update(wrong['cut texts']), { message: 'passages cannot be decompressed' });
  assert.equal(taken.length, 3);
});

test('a search whose tables are replaced is told so at its next step', async () => {
  const desk = new PrivateDesk(fakeModule().module);
  const opened = async () => {
    await desk.answer({ name: 'tables' });
    await desk.answer({ name: 'files', files: [] });
  };
  await opened();
  await desk.answer({ name: 'ask', search: 1 });
  await opened();
  for (const name of ['ranked', 'choose', 'open']) {
    await assert.rejects(desk.answer({ name, search: 1 }), { message: 'the private tables were replaced meanwhile: search again' });
  }
});
