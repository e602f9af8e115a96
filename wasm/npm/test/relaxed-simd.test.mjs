import assert from 'node:assert/strict';
import test from 'node:test';
import { QuestionEncoder } from '../dist/index.js';
import { hasRelaxedSimd } from '../dist/device/relaxed-simd.js';
import { spawnedWasm } from '../dist/worker/spawn.js';
import { FakeWorker, tinyModel } from './fake-worker.mjs';

/** Has `WebAssembly.validate` say so until the test ends. */
function validates(t, answer) {
  t.mock.method(WebAssembly, 'validate', (bytes) => {
    assert.deepEqual([...bytes.subarray(0, 4)], [0, 97, 115, 109]);
    if (answer instanceof Error) throw answer;
    return answer;
  });
}

/** The address of the module that a worker is told. */
async function addressed(t, wasmUrl) {
  const { manifest, restore } = tinyModel();
  t.after(restore);
  let worker;
  const encoder = await QuestionEncoder.load(manifest, {
    device: 'cpu',
    baseUrl: 'https://server.test/',
    createWorker: () => (worker = new FakeWorker({})),
    wasmUrl,
  });
  encoder.dispose();
  return worker.wasm;
}

test('the probe is a module but for the one instruction', () => {
  assert.equal(typeof hasRelaxedSimd(), 'boolean');
  // The dot product of SIMD128 in the place of the relaxed one.
  const plain = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 9, 1, 7, 0, 0, 253, 186, 1, 26, 11);
  assert.equal(WebAssembly.validate(plain), true);
});

test('a browser with relaxed SIMD gets the module with it, another one the plain module', (t) => {
  validates(t, true);
  assert.match(spawnedWasm('cpu').href, /\/wasm\/cpu-relaxed\/dpr_wasm_bg\.wasm$/);
  assert.match(spawnedWasm('webgpu').href, /\/wasm\/webgpu\/dpr_wasm_bg\.wasm$/);
  t.mock.restoreAll();
  validates(t, false);
  assert.match(spawnedWasm('cpu').href, /\/wasm\/cpu\/dpr_wasm_bg\.wasm$/);
  t.mock.restoreAll();
  validates(t, new TypeError('no such module'));
  assert.match(spawnedWasm('cpu').href, /\/wasm\/cpu\/dpr_wasm_bg\.wasm$/);
});

test('`wasmUrl.cpuRelaxed` is for browsers with relaxed SIMD, and `wasmUrl.cpu` alone is for all', async (t) => {
  const both = { cpu: 'https://cdn.test/cpu.wasm', cpuRelaxed: 'https://cdn.test/relaxed.wasm' };
  validates(t, true);
  assert.equal(await addressed(t, both), both.cpuRelaxed);
  assert.equal(await addressed(t, { cpu: both.cpu }), both.cpu);
  t.mock.restoreAll();
  validates(t, false);
  assert.equal(await addressed(t, both), both.cpu);
});
