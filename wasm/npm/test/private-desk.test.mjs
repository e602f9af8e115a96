// What a worker keeps of private search, and that it is freed with the rest.
import assert from 'node:assert/strict';
import test from 'node:test';
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
