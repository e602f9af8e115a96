// Which module a worker starts: by what the page says, what its engine has, and what can be fetched.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { urlsOf, startModule } from '../dist/worker/wasm-module.js';
import { workerSource } from '../dist/worker/worker-source.js';

const OWN = { address: () => new URL('https://page.test/own/cpu.wasm'), relaxed: () => new URL('https://page.test/own/relaxed.wasm') };

/** Whether the engine has relaxed SIMD, for the length of a test. */
function relaxed(t, has) {
  t.mock.method(WebAssembly, 'validate', (bytes) => {
    assert.deepEqual([...bytes.slice(0, 4)], [0, 97, 115, 109]);
    return has;
  });
}

test('the probe is taken by an engine with relaxed SIMD', () => {
  const script = `import(${JSON.stringify(new URL('../dist/worker/relaxed-simd.js', import.meta.url).href)}).then((it) => console.log(it.hasRelaxedSimd()))`;
  const run = (...flags) => spawnSync(process.execPath, [...flags, '--eval', script], { encoding: 'utf8' });
  // Node 20 has it behind a flag, which later releases no longer know.
  const flagged = run('--experimental-wasm-relaxed-simd');
  const { stdout, stderr } = flagged.status === 0 ? flagged : run();
  assert.equal(stdout, 'true\n', stderr);
});

for (const [said, plain, better] of [
  [{}, 'https://page.test/own/cpu.wasm', 'https://page.test/own/relaxed.wasm'],
  [{ wasm: 'https://a.test/cpu.wasm' }, 'https://a.test/cpu.wasm', undefined],
  [{ wasm: 'https://a.test/cpu.wasm', relaxed: 'https://a.test/relaxed.wasm' }, 'https://a.test/cpu.wasm', 'https://a.test/relaxed.wasm'],
]) {
  test(`a worker that is told ${JSON.stringify(said)} takes the module that suits its engine`, (t) => {
    relaxed(t, true);
    assert.deepEqual(urlsOf(OWN, said), better ? [better, plain] : [plain]);
    // The WebGPU module has no other.
    assert.deepEqual(urlsOf({ address: OWN.address }, said), [plain]);
    WebAssembly.validate.mock.mockImplementation(() => false);
    assert.deepEqual(urlsOf(OWN, said), [plain]);
  });
}

for (const [wasmUrl, plain, better] of [
  [undefined, /wasm\/cpu\/dpr_wasm_bg\.wasm$/, /wasm\/relaxed\/dpr_wasm_bg\.wasm$/],
  [{ webgpu: 'https://a.test/webgpu.wasm' }, /wasm\/cpu\/dpr_wasm_bg\.wasm$/, /wasm\/relaxed\/dpr_wasm_bg\.wasm$/],
  [{ cpu: 'https://a.test/cpu.wasm' }, /^https:\/\/a\.test\/cpu\.wasm$/, undefined],
  [{ cpu: 'https://a.test/cpu.wasm', relaxed: 'https://a.test/relaxed.wasm' }, /a\.test\/cpu\.wasm$/, /^https:\/\/a\.test\/relaxed\.wasm$/],
]) {
  test(`a page with the wasmUrl ${JSON.stringify(wasmUrl)} tells its workers where the modules are`, async () => {
    const { wasm } = await workerSource({ wasmUrl });
    assert.match(wasm('cpu'), plain);
    if (better) assert.match(wasm('relaxed'), better);
    else assert.equal(wasm('relaxed'), undefined);
    const foreign = await workerSource({ wasmUrl, createWorker: () => assert.fail('none is made') });
    assert.equal(foreign.wasm('relaxed'), wasmUrl?.relaxed);
  });
}

test('where the module for relaxed SIMD cannot be had, the plain one is started, and a policy is asked once', async (t) => {
  relaxed(t, true);
  const asked = [];
  const answers = { 'https://page.test/own/relaxed.wasm': new Response('', { status: 404 }) };
  t.mock.method(globalThis, 'fetch', async (url) => {
    asked.push(url);
    return answers[url] ?? new Response('');
  });
  const module = { ...OWN, init: async () => undefined };
  assert.equal(await startModule(module, {}, () => undefined), 'https://page.test/own/cpu.wasm');
  assert.deepEqual(asked.splice(0), ['https://page.test/own/relaxed.wasm', 'https://page.test/own/cpu.wasm']);

  delete answers['https://page.test/own/relaxed.wasm'];
  const refused = { ...module, init: () => Promise.reject(new Error('refused by the Content Security Policy: unsafe-eval')) };
  await assert.rejects(startModule(refused, {}, () => undefined), { code: 'wasm_blocked_by_csp' });
  assert.deepEqual(asked.splice(0), ['https://page.test/own/relaxed.wasm']);

  // A trap is the module's own.
  const trapped = { ...module, init: () => Promise.reject(new WebAssembly.RuntimeError('unreachable')) };
  await assert.rejects(startModule(trapped, {}, () => undefined), WebAssembly.RuntimeError);
  assert.deepEqual(asked.splice(0), ['https://page.test/own/relaxed.wasm']);
});
