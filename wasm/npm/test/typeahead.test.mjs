import assert from 'node:assert/strict';
import test from 'node:test';
import { typeahead } from '../dist/index.js';

/** A client whose searches are answered when the test says so; each result has its text as its only hit. */
function fakeClient() {
  const searches = [];
  const client = {
    preloads: 0,
    async preload() {
      client.preloads++;
    },
    search: (text, options) =>
      new Promise((resolve, reject) => {
        const answer = () => resolve({ hits: [{ id: text }] });
        searches.push({ text, options, answer, fail: reject });
        options.signal.addEventListener('abort', () => reject(options.signal.reason));
      }),
  };
  return { client, searches };
}
const settle = () => new Promise((resolve) => setImmediate(resolve));

function start(t, options) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { client, searches } = fakeClient();
  const live = typeahead(client, options);
  const states = [];
  live.subscribe(({ text, status, result }) => states.push([text, status, result?.hits[0].id]));
  t.after(() => live.dispose());
  return { live, searches, states, client, wait: (time) => t.mock.timers.tick(time) };
}

test('twenty keystrokes are one search, of the last text', async (t) => {
  const { live, searches, states, wait, client } = start(t, { k: 3 });
  for (let key = 1; key <= 20; key++) {
    live.input('q'.repeat(key));
    wait(10);
  }
  assert.equal(searches.length, 0);
  assert.ok(client.preloads > 0);
  wait(100);
  assert.deepEqual(searches.map(({ text, options }) => [text.length, options.k]), [[20, 3]]);
  searches[0].answer();
  await settle();
  assert.deepEqual(states.at(-1), ['q'.repeat(20), 'done', 'q'.repeat(20)]);
});

test('a newer text gives up the search under way, whose answer is never shown', async (t) => {
  const { live, searches, states, wait } = start(t);
  live.input('who');
  wait(100);
  live.input('who won');
  assert.ok(searches[0].options.signal.aborted);
  searches[0].answer();
  await settle();
  wait(100);
  searches[1].answer();
  await settle();
  assert.deepEqual(states.filter(([, status]) => status === 'done'), [['who won', 'done', 'who won']]);
  assert.ok(!states.some(([, status]) => status === 'failed'));
});

test('the last answer stays until there is another, and goes with the text', async (t) => {
  const { live, searches, states, wait } = start(t, { debounce: 50 });
  live.input('who');
  wait(50);
  searches[0].answer();
  await settle();
  live.input('who won');
  assert.deepEqual(states.at(-1), ['who won', 'waiting', 'who']);
  live.input('  ');
  assert.deepEqual(states.at(-1), ['', 'idle', undefined]);
  wait(1000);
  assert.equal(searches.length, 1);
});

test('a text that was answered is not searched again, up to as many as are remembered', async (t) => {
  const { live, searches, states, wait } = start(t, { remember: 2 });
  for (const text of ['a', 'b', 'c']) {
    live.input(text);
    wait(100);
    searches.at(-1).answer();
    await settle();
  }
  live.input('b');
  assert.deepEqual(states.at(-1), ['b', 'done', 'b']);
  assert.equal(searches.length, 3);
  live.input('a');
  wait(100);
  assert.equal(searches.length, 4);
});

test('short texts are not searched, and the same text with other spaces is not a new one', (t) => {
  const { live, searches, wait } = start(t, { minLength: 3 });
  live.input('wh');
  wait(1000);
  live.input('who');
  wait(60);
  live.input('who ');
  wait(40);
  assert.deepEqual(searches.map(({ text }) => text), ['who']);
});

test('flush searches at once, and again after a failure', async (t) => {
  const { live, searches, states, wait } = start(t);
  live.flush();
  assert.equal(searches.length, 0);
  live.input('who');
  live.flush();
  assert.equal(searches.length, 1);
  wait(1000);
  assert.equal(searches.length, 1);
  searches[0].fail(new Error('no'));
  await settle();
  assert.deepEqual(states.at(-1), ['who', 'failed', undefined]);
  assert.equal(live.state.error.message, 'no');
  live.flush();
  searches[1].answer();
  await settle();
  assert.equal(live.state.status, 'done');
});

test('disposing gives up what is under way and says no more', async (t) => {
  const { live, searches, states, wait } = start(t);
  live.input('who');
  wait(100);
  live.input('why');
  const said = states.length;
  live[Symbol.dispose ?? Symbol.for('Symbol.dispose')]();
  assert.ok(searches[0].options.signal.aborted);
  await settle();
  live.input('what');
  live.flush();
  wait(1000);
  assert.equal(states.length, said);
  assert.equal(searches.length, 1);
});
