import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { nodeResolve } from '@rollup/plugin-node-resolve';
import { rollup } from '@rollup/wasm-node';
import esbuild from 'esbuild';
import { build as vite } from 'vite';
import { QuestionEncoder } from '../dist/index.js';
import { tinyModel } from './fake-worker.mjs';
import { standInApp, WASM_URL } from './stand-in.mjs';
import { ThreadWorker } from './thread-worker.mjs';

// Each makes one script of an entry, as its users do: no option that the README does not name.
const BUNDLERS = {
  esbuild: async (folder, entry, format) => {
    const outfile = path.join(folder, 'out.js');
    const { warnings } = await esbuild.build({ entryPoints: [path.join(folder, entry)], outfile, bundle: true, format, logLevel: 'silent' });
    // A worker without a module format has no `import.meta`: it needs `wasmUrl`, as below.
    assert.deepEqual(warnings.filter(({ id }) => id !== 'empty-import-meta'), []);
    return outfile;
  },
  rollup: async (folder, entry, format) => {
    const file = path.join(folder, 'out.js');
    const bundle = await rollup({ input: path.join(folder, entry), plugins: [nodeResolve({ browser: true })] });
    const { output } = await bundle.write({ file, format });
    await bundle.close();
    assert.equal(output.length, 1);
    return file;
  },
  vite: async (folder, entry, format) => {
    const lib = { entry: path.join(folder, entry), formats: [format], name: 'worker', fileName: () => 'out.js' };
    await vite({ root: folder, configFile: false, logLevel: 'silent', build: { lib } });
    return path.join(folder, 'dist/out.js');
  },
};

for (const [bundler, build] of Object.entries(BUNDLERS)) {
  for (const entry of ['dpr-web/worker', 'dpr-web/worker/cpu', 'dpr-web/worker/webgpu']) {
    for (const format of ['esm', 'iife']) {
      test(`an own worker of \`${entry}\` built by ${bundler} as ${format} says hello and encodes`, async (t) => {
        const folder = standInApp(t, { 'my-worker.js': `import '${entry}';\n` });
        const script = await build(folder, 'my-worker.js', bundler === 'vite' && format === 'esm' ? 'es' : format);
        assert.ok(statSync(script).size > 1000, `${statSync(script).size} bytes`);
        const device = entry.endsWith('webgpu') ? 'webgpu' : 'cpu';
        const vector = await encode(device, script);
        assert.deepEqual([...vector], [3, 3, 3, 3]);
      });
    }
  }
}

test('Vite makes both workers and both modules of the package with no configuration', async (t) => {
  const folder = standInApp(t, {
    'index.html': '<!doctype html><script type="module" src="/main.js"></script>',
    'main.js': "import { SearchClient } from 'dpr-web';\nawait SearchClient.connect('/');\n",
  });
  await vite({ root: folder, configFile: false, logLevel: 'silent', build: { target: 'es2022', assetsInlineLimit: 0 } });
  const assets = readdirSync(path.join(folder, 'dist/assets'));
  assert.equal(assets.filter((name) => name.endsWith('.wasm')).length, 2, assets.join(' '));
  for (const device of ['cpu', 'webgpu']) {
    const name = assets.find((name) => name.startsWith(`worker-${device}`) && name.endsWith('.js'));
    assert.ok(name, assets.join(' '));
    assert.ok(readFileSync(path.join(folder, 'dist/assets', name), 'utf8').includes('hello'));
    assert.equal((await encode(device, path.join(folder, 'dist/assets', name))).length, 4);
  }
});

/** The vector of a question of three letters, from a worker with this script. */
async function encode(device, script) {
  const original = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  Object.defineProperty(globalThis, 'navigator', { value: { userAgent: 'test', gpu: { requestAdapter: async () => ({}) } }, configurable: true });
  const model = tinyModel();
  try {
    const encoder = await QuestionEncoder.load(model.manifest, {
      device,
      baseUrl: 'https://server.test/',
      createWorker: () => new ThreadWorker(script),
      wasmUrl: { [device]: WASM_URL },
    });
    assert.equal(encoder.device, device);
    const vector = await encoder.encode('who');
    encoder.dispose();
    return vector;
  } finally {
    model.restore();
    if (original) Object.defineProperty(globalThis, 'navigator', original);
    else delete globalThis.navigator;
  }
}
