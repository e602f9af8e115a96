import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import test from 'node:test';

// A page rendered on a server imports the package where there is no window, worker or WebGPU.
test('importing every module in Node touches nothing', async () => {
  const before = Object.keys(globalThis);
  const files = readdirSync(new URL('../dist/', import.meta.url), { recursive: true }).filter((name) => name.endsWith('.js'));
  assert.ok(files.length > 20);
  for (const file of files) await import(new URL(`../dist/${file}`, import.meta.url));
  assert.deepEqual(Object.keys(globalThis), before);
});

test('the package offers what its documentation names', async () => {
  const api = await import('dpr-web');
  for (const name of ['SearchClient', 'QuestionEncoder', 'DisposedError', 'IntegrityError', 'DownloadError', 'ServerError', 'EncoderError', 'InsecureContextError', 'ManifestError', 'clearModelCache']) {
    assert.equal(typeof api[name], 'function', name);
  }
});
