import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
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

test('a worker that the package starts imports the script of its module alone: bundlers have nothing to share among them', () => {
  for (const device of ['cpu', 'webgpu']) {
    const script = readFileSync(new URL(`../dist/worker/worker-${device}.js`, import.meta.url), 'utf8');
    const imports = [...script.matchAll(/\b(?:import|from)\s*\(?\s*["']([^"']+)["']/g)].map(([, name]) => name);
    assert.deepEqual(imports, [`../../wasm/${device}/dpr_wasm.js`]);
  }
});

test('the workers of the package have names that differ, as webpack makes them names of files', () => {
  const names = ['spawn', 'shared-source'].flatMap((file) => {
    const script = readFileSync(new URL(`../dist/worker/${file}.js`, import.meta.url), 'utf8');
    return [...script.matchAll(/type: 'module', name: '([\w-]+)'/g)].map(([, name]) => name);
  });
  assert.deepEqual(names.sort(), ['dpr-web-cpu', 'dpr-web-shared', 'dpr-web-webgpu']);
});

test('Vite makes both workers and the three modules of the package with no configuration', async (t) => {
  const folder = standInApp(t, {
    'index.html': '<!doctype html><script type="module" src="/main.js"></script>',
    'main.js': "import { SearchClient } from 'dpr-web';\nawait SearchClient.connect('/');\n",
  });
  await vite({ root: folder, configFile: false, logLevel: 'silent', build: { target: 'es2022', assetsInlineLimit: 0 } });
  const assets = readdirSync(path.join(folder, 'dist/assets'));
  assert.equal(assets.filter((name) => name.endsWith('.wasm')).length, 3, assets.join(' '));
  for (const device of ['cpu', 'webgpu']) {
    const name = assets.find((name) => name.startsWith(`worker-${device}`) && name.endsWith('.js'));
    assert.ok(name, assets.join(' '));
    assert.ok(readFileSync(path.join(folder, 'dist/assets', name), 'utf8').includes('hello'));
    assert.equal((await encode(device, path.join(folder, 'dist/assets', name))).length, 4);
  }
});

test('a page that makes a client and searches gets at most 8 kB of script at a time, compressed', async (t) => {
  const folder = standInApp(t, {
    'index.html': '<!doctype html><script type="module" src="/main.js"></script>',
    'main.js': "import { SearchClient } from 'dpr-web';\nconst client = SearchClient.create('/');\nonclick = async () => console.log(await client.search('who'));\n",
  });
  await vite({ root: folder, configFile: false, logLevel: 'silent', build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false } } });
  const assets = path.join(folder, 'dist/assets');
  const scripts = readdirSync(assets).filter((name) => name.endsWith('.js') && !/^worker-(cpu|webgpu|shared)-/.test(name));
  const nameOf = (file) => file.replace(/-.{8}\.js$/, '');
  const texts = Object.fromEntries(scripts.map((file) => [nameOf(file), readFileSync(path.join(assets, file), 'utf8')]));
  const sizes = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, gzipped(text)]));
  t.diagnostic(`gzip: ${JSON.stringify(sizes)}`);
  /** These scripts and all that they import at once. */
  const imports = (names) => {
    const all = new Set(names);
    for (const at of all) for (const [, file] of texts[at].matchAll(/\b(?:from|import)\s*["'`]\.\/([^"'`]+)["'`]/g)) all.add(nameOf(file));
    return [...all];
  };
  /** Bytes of a script and of what it imports, without these scripts. */
  const whole = (name, without) => imports([name]).reduce((sum, at) => (without.includes(at) ? sum : sum + sizes[at]), 0);
  // What the page loads, what it loads when the encoder is wanted, and what it loads beside that or for few pages.
  const parts = { index: 5000, 'question-encoder': 8000, later: 2500, 'read-answer': 2500, 'read-manifest': 2500, gpu: 5000, 'model-files': 3500, 'shared-source': 1000 };
  for (const [name, most] of Object.entries(parts)) {
    const bytes = whole(name, name === 'index' ? [] : imports(['index', ...(name === 'question-encoder' ? [] : ['question-encoder'])]));
    assert.ok(bytes <= most, `${name}: ${bytes} bytes`);
  }
  // Only pages that re-rank or answer load the first, only those that search in private modes the second, and only those
  // that search a static index, whole or by its buckets, the next ones, which share the last.
  const { reading, privacy, 'local-search': local, 'bucket-search': bucket, 'site-files': site } = sizes;
  assert.ok(reading > 1000 && reading <= 5000, `reading: ${reading} bytes`);
  assert.ok(privacy > 1000 && privacy <= 7000, `privacy: ${privacy} bytes`);
  for (const [name, bytes] of Object.entries({ local, bucket })) assert.ok(bytes > 1000 && bytes + site <= 6000, `${name}: ${bytes} + ${site} bytes`);
});

test('what a CDN serves is one script for the page, one for each worker, and four for pages that re-rank, answer, search in private modes or without a server', async (t) => {
  const folder = path.join(standInApp(t, {}), 'node_modules/dpr-web');
  const { unpkg, jsdelivr } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
  assert.equal(unpkg, jsdelivr);
  const page = readFileSync(path.join(folder, unpkg), 'utf8');
  assert.doesNotMatch(page, /\bimport\s*[{"'*]|\bfrom\s*["']/);
  for (const name of ['reading.js', 'privacy.js']) {
    const part = readFileSync(path.join(folder, path.dirname(unpkg), name), 'utf8');
    assert.ok(page.includes(`import("./${name}")`));
    assert.deepEqual(imported(part), []);
  }
  for (const name of ['local-search.js', 'bucket-search.js']) {
    const part = readFileSync(path.join(folder, path.dirname(unpkg), name), 'utf8');
    assert.ok(readFileSync(path.join(folder, path.dirname(unpkg), 'privacy.js'), 'utf8').includes(`import("./${name}")`));
    assert.deepEqual(imported(part), []);
  }
  for (const device of ['cpu', 'webgpu']) {
    const name = `worker-${device}.js`;
    assert.ok(page.includes(`"./${name}"`) && page.includes(`"../../wasm/${device}/dpr_wasm_bg.wasm"`), name);
    const script = path.join(path.dirname(path.join(folder, unpkg)), name);
    // The module's own script is all that it imports.
    assert.deepEqual([...readFileSync(script, 'utf8').matchAll(/\bfrom\s*"([^"]+)"/g)].map(([, from]) => from), [`../../wasm/${device}/dpr_wasm.js`]);
    assert.deepEqual([...(await encode(device, script))], [3, 3, 3, 3]);
  }
  assert.ok(page.includes('"../../wasm/relaxed/dpr_wasm_bg.wasm"'));
});

/** What a script imports at once, but for the errors that the page knows. */
function imported(script) {
  return [...script.matchAll(/\bfrom\s*"([^"]+)"/g)].map(([, from]) => from).filter((from) => from !== './index.js');
}

/** Bytes after gzip. */
function gzipped(bytes) {
  return gzipSync(bytes, { level: 9 }).length;
}

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
