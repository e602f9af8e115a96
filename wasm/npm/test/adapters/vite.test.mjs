import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { build, createServer, resolveConfig } from 'vite';
import { dprWeb } from 'dpr-web/vite';
import { standInApp } from '../stand-in.mjs';

const PAGE = '<!doctype html><head></head><script type="module" src="/main.js"></script>';
const MAIN = "import { SearchClient } from 'dpr-web';\nconst client = SearchClient.create('/');\nonclick = () => client.search('who');\n";

/** The tags that the plugin put into the pages of a build, by page. */
async function links(t, { prefetch, base = '/' }) {
  const root = standInApp(t, { 'index.html': PAGE, 'main.js': MAIN });
  mkdirSync(path.join(root, 'deep'));
  writeFileSync(path.join(root, 'deep/index.html'), PAGE);
  const rollupOptions = { input: [path.join(root, 'index.html'), path.join(root, 'deep/index.html')] };
  await build({ root, base, configFile: false, logLevel: 'silent', plugins: [dprWeb({ prefetch })], build: { assetsInlineLimit: 0, rollupOptions } });
  const found = (page) => [...readFileSync(path.join(root, 'dist', page), 'utf8').matchAll(/<link rel="prefetch"[^>]*>/g)].map(([tag]) => tag);
  return { pages: { 'index.html': found('index.html'), 'deep/index.html': found('deep/index.html') }, files: readdirSync(path.join(root, 'dist/assets')), root };
}

const hrefs = (tags) => tags.map((tag) => /href="([^"]*)"/.exec(tag)[1]);

test('with `prefetch`, pages name the scripts, the worker and the module of the CPU, and nothing of WebGPU', async (t) => {
  const { pages, files } = await links(t, { prefetch: true });
  const tags = pages['index.html'];
  const names = hrefs(tags).map((href) => href.replace('/assets/', ''));
  assert.ok(names.every((name) => files.includes(name)), names.join(' '));
  for (const wanted of ['dpr_wasm_bg', 'later', 'question-encoder', 'read-answer', 'read-manifest', 'worker-cpu']) {
    assert.equal(names.filter((name) => name.startsWith(`${wanted}-`)).length, 1, `${wanted}: ${names.join(' ')}`);
  }
  // What they import, and nothing that the page has already, or that a first search on the CPU does without.
  assert.ok(!names.some((name) => /^(index|gpu|reading|privacy|local|bucket|worker-webgpu|shared-source|model-files)/.test(name)), names.join(' '));
  assert.ok(tags.every((tag) => tag.includes('referrerpolicy="no-referrer"') && tag.includes('crossorigin')));
});

test('of three modules it is the one of the CPU for engines with relaxed SIMD', async (t) => {
  const { pages, root } = await links(t, { prefetch: true });
  const wasm = hrefs(pages['index.html']).find((href) => href.endsWith('.wasm'));
  assert.deepEqual(readFileSync(path.join(root, 'dist', wasm)), readFileSync(path.join(root, 'node_modules/dpr-web/wasm/relaxed/dpr_wasm_bg.wasm')));
});

test('addresses follow the base, a relative one as well, and without `prefetch` there are none', async (t) => {
  const nested = await links(t, { prefetch: true, base: '/sub/' });
  assert.ok(hrefs(nested.pages['index.html']).every((href) => href.startsWith('/sub/assets/')));
  const relative = await links(t, { prefetch: true, base: './' });
  assert.ok(hrefs(relative.pages['index.html']).every((href) => href.startsWith('./assets/')));
  assert.ok(hrefs(relative.pages['deep/index.html']).every((href) => href.startsWith('../assets/')));
  const { pages } = await links(t, {});
  assert.deepEqual(pages, { 'index.html': [], 'deep/index.html': [] });
});

test('what older releases of Vite need is set, beside what the page sets', async (t) => {
  const root = standInApp(t, { 'index.html': PAGE, 'main.js': MAIN });
  const config = await resolveConfig({ root, configFile: false, plugins: [dprWeb()], optimizeDeps: { exclude: ['other'] } }, 'serve');
  assert.deepEqual([...config.optimizeDeps.exclude].sort(), ['dpr-web', 'other']);
  assert.equal(config.worker.format, 'es');
});

test('in development the workers and modules are beside the script that asks for them', async (t) => {
  const root = standInApp(t, { 'index.html': PAGE, 'main.js': MAIN });
  const server = await createServer({ root, configFile: false, logLevel: 'silent', plugins: [dprWeb({ prefetch: true })], server: { host: '127.0.0.1', port: 0, ws: false } });
  t.after(() => server.close());
  await server.listen();
  const at = (file) => new URL(file, server.resolvedUrls.local[0]);
  const main = await (await fetch(at('main.js'))).text();
  const entry = /from\s*"([^"]*dpr-web[^"]*)"/.exec(main)[1];
  assert.match(entry, /\/node_modules\/dpr-web\/dist\/index\.js/);
  const spawn = await (await fetch(at('node_modules/dpr-web/dist/worker/spawn.js'))).text();
  const [worker] = /[^"'`]*worker-cpu\.js[^"'`]*/.exec(spawn);
  const script = await fetch(new URL(worker, at('node_modules/dpr-web/dist/worker/spawn.js')));
  assert.equal(script.status, 200);
  assert.match(script.headers.get('content-type'), /javascript/);
  assert.equal((await fetch(at('node_modules/dpr-web/wasm/relaxed/dpr_wasm_bg.wasm'))).headers.get('content-type'), 'application/wasm');
});
