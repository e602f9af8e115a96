import assert from 'node:assert/strict';
import { readdirSync, readFileSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { standInPackage, temporaryFolder } from './stand-in.mjs';

// A page rendered on a server imports the package where there is no window, worker or WebGPU.
test('importing every module in Node touches nothing', async (t) => {
  const folder = standInPackage(temporaryFolder(t));
  symlinkSync(fileURLToPath(new URL('../node_modules', import.meta.url)), path.join(folder, 'node_modules'));
  const dist = path.join(folder, 'dist');
  const files = readdirSync(dist, { recursive: true }).filter((name) => name.endsWith('.js'));
  assert.ok(files.length > 20);
  // What frameworks do is their own affair.
  const imported = files.flatMap((file) => [...readFileSync(path.join(dist, file), 'utf8').matchAll(/^import .*from '([^.'][^']*)'/gm)]);
  for (const name of new Set(imported.map(([, name]) => name))) await import(name);
  const before = Object.keys(globalThis);
  for (const file of files) await import(pathToFileURL(path.join(dist, file)).href);
  assert.deepEqual(Object.keys(globalThis), before);
});

test('the package offers what its documentation names', async () => {
  const api = await import('dpr-web');
  for (const name of ['SearchClient', 'QuestionEncoder', 'DisposedError', 'IntegrityError', 'DownloadError', 'ServerError', 'EncoderError', 'InsecureContextError', 'ManifestError', 'clearModelCache']) {
    assert.equal(typeof api[name], 'function', name);
  }
});

// A new clone's page is built before the WebGPU module is.
test("the demo's stand-in has every name that is taken from the WebGPU module", async () => {
  const source = readFileSync(new URL('../src/worker/wasm-webgpu.ts', import.meta.url), 'utf8');
  const [, names] = source.match(/^import init, \{ ([^}]+) \} from '.*\/dpr_wasm\.js';$/m);
  const standIn = await import('../../../web-demo/src/no-webgpu.js');
  assert.deepEqual(Object.keys(standIn).sort(), [...names.split(', '), 'default'].sort());
});

test("the demo's first page names no module for relaxed SIMD, which is not there yet", async () => {
  const { withoutRelaxed } = await import('../../../web-demo/src/without-relaxed.js');
  const code = readFileSync(new URL('../dist/worker/spawn.js', import.meta.url), 'utf8');
  assert.equal(code.split('/relaxed/').length, 2);
  assert.ok(!withoutRelaxed(code).includes('/relaxed/'));
  assert.equal(withoutRelaxed(code).split('../../wasm/cpu/dpr_wasm_bg.wasm').length, 3);
});
