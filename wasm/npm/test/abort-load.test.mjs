import assert from 'node:assert/strict';
import test from 'node:test';
import { QuestionEncoder, SearchClient } from '../dist/index.js';
import { FakeWorker, tinyModel, until, withGpu, withStorage } from './fake-worker.mjs';
import { fakeFetch } from './helpers.mjs';

/** Turns of the microtask queue after the event `ready`: loading settles within these. */
const TURNS = 24;

function setUp(t, script = {}) {
  const { manifest, restore } = tinyModel();
  t.after(restore);
  const workers = [];
  const createWorker = () => {
    workers.push(new FakeWorker(script));
    return workers.at(-1);
  };
  return { manifest, workers, createWorker };
}

/** Calls `work` so many turns of the microtask queue later; at once for 0. */
async function later(turns, work) {
  for (let turn = 0; turn < turns; turn++) await undefined;
  work();
}

for (const device of ['cpu', 'webgpu', 'auto']) {
  test(`a load that is given up when it is ready leaves no worker behind (${device})`, async (t) => {
    withGpu(t);
    withStorage(t);
    for (let turns = 0; turns < TURNS; turns++) {
      const { manifest, workers, createWorker } = setUp(t, { webgpu: { measure: 5 }, cpu: { measure: 70 } });
      const stop = new AbortController();
      const onProgress = ({ status }) => {
        if (status === 'ready') void later(turns, () => stop.abort(new Error('enough')));
      };
      const options = { device, baseUrl: 'https://server.test/', createWorker, onProgress, signal: stop.signal };
      const [{ value, reason }] = await Promise.allSettled([QuestionEncoder.load(manifest, options)]);
      // It may have been there before the signal fired.
      if (value) assert.deepEqual([...(await value.encode('abc'))], [3, 3, 3, 3]);
      else assert.equal(reason.message, 'enough');
      value?.dispose();
      await until(() => workers.every(({ terminated }) => terminated));
      if (turns === 0) assert.equal(value, undefined);
    }
  });
}

test('a client that is disposed when it is ready leaves no worker behind', async (t) => {
  const { manifest, workers, createWorker } = setUp(t);
  const files = globalThis.fetch;
  const server = fakeFetch((url, init) => (url.endsWith('/v1/model') ? Response.json(manifest) : files(`https://server.test/${url.split('/').pop()}`, init)));
  t.after(server.restore);
  for (let turns = 0; turns < TURNS; turns++) {
    const onProgress = ({ status }) => {
      if (status === 'ready') void later(turns, () => client.dispose());
    };
    const client = SearchClient.create('https://server.test/', { device: 'cpu', createWorker, onProgress });
    await client.ready.catch((error) => assert.equal(error.code, 'disposed'));
    await until(() => client.state === 'disposed' && workers.every(({ terminated }) => terminated));
  }
});
