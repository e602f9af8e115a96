import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { standInPackage, temporaryFolder } from './stand-in.mjs';

// A page rendered on a server imports the package where there is no window, worker or WebGPU.
test('importing every module in Node touches nothing', async (t) => {
  const dist = path.join(standInPackage(temporaryFolder(t)), 'dist');
  const before = Object.keys(globalThis);
  const files = readdirSync(dist, { recursive: true }).filter((name) => name.endsWith('.js'));
  assert.ok(files.length > 20);
  for (const file of files) await import(pathToFileURL(path.join(dist, file)).href);
  assert.deepEqual(Object.keys(globalThis), before);
});

test('the package offers what its documentation names', async () => {
  const api = await import('dpr-web');
  for (const name of ['SearchClient', 'QuestionEncoder', 'DisposedError', 'IntegrityError', 'DownloadError', 'ServerError', 'EncoderError', 'InsecureContextError', 'ManifestError', 'clearModelCache']) {
    assert.equal(typeof api[name], 'function', name);
  }
});
