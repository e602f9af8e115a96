import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'vite';
import { standInPackage, temporaryFolder } from '../stand-in.mjs';
import { modelServer } from './model-server.mjs';

const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url));
const EXAMPLES = fileURLToPath(new URL('../../../../examples/web', import.meta.url));

/** A copy of the example that has the package, and the frameworks of the package's own tests, installed. */
function installed(t, name) {
  const folder = temporaryFolder(t);
  cpSync(path.join(EXAMPLES, name), folder, { recursive: true, filter: (file) => !/node_modules|dist$/.test(file) });
  const modules = path.join(folder, 'node_modules');
  mkdirSync(modules);
  for (const entry of readdirSync(MODULES)) if (!entry.startsWith('.')) symlinkSync(path.join(MODULES, entry), path.join(modules, entry));
  standInPackage(path.join(modules, 'dpr-web'));
  return folder;
}

const examples = readdirSync(EXAMPLES, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => name);
// Frameworks with tools of their own are built by the bundler tests.
const pages = examples.filter((name) => ['index.html', 'vite.config.js'].every((file) => existsSync(path.join(EXAMPLES, name, file))));

for (const name of pages) {
  test(`the example ${name} is built by Vite, with the workers and modules in it`, async (t) => {
    const root = installed(t, name);
    await build({ root, logLevel: 'error', build: { assetsInlineLimit: 0 } });
    const assets = readdirSync(path.join(root, 'dist/assets'));
    for (const device of ['cpu', 'webgpu']) assert.ok(assets.some((file) => file.startsWith(`worker-${device}`)), assets.join(' '));
    assert.equal(assets.filter((file) => file.endsWith('.wasm')).length, 3, assets.join(' '));
  });
}

test('the example plain is put together without a bundler, and every file that it names is there', async (t) => {
  const root = installed(t, 'plain');
  await promisify(execFile)(process.execPath, ['build.js'], { cwd: root });
  const site = path.join(root, 'dist');
  const named = (file, pattern) => [...readFileSync(path.join(site, file), 'utf8').matchAll(pattern)].map(([, name]) => path.join(path.dirname(file), name));
  const files = [...named('index.html', /(?:href|src)="([^"]+)"/g), ...named('main.js', /from '([^']+)'/g)];
  assert.deepEqual(files, ['style.css', 'main.js', 'dpr-web/dist/cdn/index.js']);
  const assets = ['worker-cpu.js', 'worker-webgpu.js'].map((name) => `dpr-web/dist/cdn/${name}`);
  const modules = ['cpu', 'relaxed', 'webgpu'].map((device) => `dpr-web/wasm/${device}/dpr_wasm_bg.wasm`);
  for (const file of [...files, ...assets, ...modules]) assert.ok(existsSync(path.join(site, file)), file);
});

test('the service worker of the example offline keeps every script that the build has, and the modules for the CPU alone', async (t) => {
  const root = installed(t, 'offline');
  await build({ root, logLevel: 'error' });
  const [, list] = /^self\.assets = (\[.*\]);\n/.exec(readFileSync(path.join(root, 'dist/service-worker.js'), 'utf8'));
  const files = readdirSync(path.join(root, 'dist/assets')).map((name) => `/assets/${name}`);
  const [modules, others] = [files.filter((name) => name.endsWith('.wasm')), files.filter((name) => /\.(js|css)$/.test(name) && !name.includes('worker-webgpu'))];
  const kept = JSON.parse(list);
  assert.deepEqual(kept.filter((name) => !name.endsWith('.wasm')).sort(), others.sort());
  assert.ok(others.some((name) => name.includes('worker-cpu')) && others.some((name) => name.endsWith('.css')));
  const names = kept.filter((name) => modules.includes(name)).map((name) => /cpu|relaxed|webgpu/.exec(readFileSync(path.join(root, 'dist', name), 'latin1'))[0]);
  assert.deepEqual([modules.length, names.sort()], [3, ['cpu', 'relaxed']]);
});

for (const [name, script, line] of [
  ['node', 'search.js', /^1\.000 Found \| a passage\n\d+ bytes were sent to http:.*\/v1\/search\n$/],
  ['langchain', 'retrieve.js', /^1\.000 Found \| a passage\n$/],
  ['llamaindex', 'retrieve.js', /^1\.000 Found \| a passage\n$/],
  ['ai', 'similar.js', /^1\.000 won\n$/],
]) {
  test(`the example ${name} runs against a server from the command line`, async (t) => {
    const root = installed(t, name);
    const { url, asked } = await modelServer(t);
    const run = promisify(execFile);
    const { stdout } = await run(process.execPath, [script, url, 'who', 'won'], { cwd: root, timeout: 60_000 });
    assert.match(stdout, line);
    assert.ok(asked.every((line) => !line.includes('who')));
  });
}

test('every example names the packages that it imports, and the page of examples names it', () => {
  const listed = readFileSync(path.join(EXAMPLES, 'README.md'), 'utf8');
  for (const name of examples) {
    assert.ok(listed.includes(`\`${name}\``), name);
    const folder = path.join(EXAMPLES, name);
    const { dependencies = {}, devDependencies = {} } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
    const files = readdirSync(folder, { recursive: true }).filter((file) => /\.(js|jsx|mjs|ts|vue|svelte|astro)$/.test(file) && !/node_modules|dist/.test(file));
    for (const file of files) {
      for (const [, wanted] of readFileSync(path.join(folder, file), 'utf8').matchAll(/^\s*import (?:.* from )?'([^.'][^']*)'/gm)) {
        if (wanted.startsWith('node:')) continue;
        const parts = wanted.split('/');
        const dependency = wanted.startsWith('@') ? parts.slice(0, 2).join('/') : parts[0];
        assert.ok(dependency in dependencies || dependency in devDependencies, `${name}/${file}: ${dependency}`);
      }
    }
  }
});
