import assert from 'node:assert/strict';
import { resolveObjectURL } from 'node:buffer';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { OptionError, QuestionEncoder, SearchClient } from '../dist/index.js';
import { FakeWorker, tinyModel } from './fake-worker.mjs';
import { standInApp } from './stand-in.mjs';

const isOptionError = (error) => error instanceof OptionError && error.code === 'invalid_option' && error.fix !== '';

test('addresses that are none, or relative where there is no document, are an OptionError', async () => {
  assert.throws(() => SearchClient.create('/'), (error) => isOptionError(error) && /is not an address: \//.test(error.message));
  assert.throws(() => SearchClient.create('https://['), isOptionError);
  await assert.rejects(SearchClient.connect('/'), isOptionError);
  await assert.rejects(QuestionEncoder.load('/v1/model'), isOptionError);
  await assert.rejects(QuestionEncoder.load({}, { baseUrl: 'models/' }), isOptionError);
});

test('without web workers the error says so', async (t) => {
  const { manifest, restore } = tinyModel();
  t.after(restore);
  const original = globalThis.Worker;
  delete globalThis.Worker;
  t.after(() => original && (globalThis.Worker = original));
  await assert.rejects(
    QuestionEncoder.load(manifest, { device: 'cpu', baseUrl: 'https://server.test/' }),
    (error) => error.name === 'EncoderError' && error.code === 'no_worker' && /createWorker/.test(error.fix),
  );
});

test('where a worker of another origin is refused, one of the page\'s own imports its script', async (t) => {
  const { manifest, restore } = tinyModel();
  t.after(restore);
  const made = [];
  globalThis.location = { href: 'https://page.test/', origin: 'https://page.test' };
  globalThis.Worker = class extends FakeWorker {
    constructor(url, { type }) {
      if (!String(url).startsWith('blob:')) throw new DOMException('cannot be accessed from origin', 'SecurityError');
      super({});
      made.push([String(url), type, this]);
    }
  };
  t.after(() => {
    delete globalThis.Worker;
    delete globalThis.location;
  });
  const encoder = await QuestionEncoder.load(manifest, { device: 'cpu', baseUrl: 'https://server.test/' });
  encoder.dispose();
  const [[url, type, worker]] = made;
  // The address of the module is handed in: such a worker has none to look from.
  assert.equal(worker.wasm, new URL('../wasm/cpu/dpr_wasm_bg.wasm', import.meta.url).href);
  assert.equal(worker.relaxed, new URL('../wasm/relaxed/dpr_wasm_bg.wasm', import.meta.url).href);
  assert.equal(type, 'module');
  const script = new URL('../dist/worker/worker-cpu.js', import.meta.url).href;
  assert.equal(await resolveObjectURL(url).text(), `import ${JSON.stringify(script)};`);
});

test('the types take `undefined` for every option, and are read without skipLibCheck', (t) => {
  const folder = standInApp(t, {
    'tsconfig.json': JSON.stringify({
      compilerOptions: { strict: true, exactOptionalPropertyTypes: true, skipLibCheck: false, noEmit: true, target: 'es2022', module: 'nodenext', lib: ['es2022', 'dom'], types: [] },
      include: ['page.ts'],
    }),
    'page.ts': `
import { SearchClient, QuestionEncoder, typeahead, type ConnectOptions, type SearchOptions, type TypeaheadOptions } from 'dpr-web';
const options: Required<{ [K in keyof ConnectOptions]: undefined }> = {
  device: undefined, measure: undefined, dtype: undefined, onProgress: undefined, signal: undefined, worker: undefined, createWorker: undefined,
  startTimeout: undefined, wasmUrl: undefined, baseUrl: undefined, expect: undefined, headers: undefined, credentials: undefined,
  fetch: undefined, retry: undefined, stallTimeout: undefined, keepOldModels: undefined, timeout: undefined, privacy: undefined, encoder: undefined,
};
const search: Required<{ [K in keyof SearchOptions]: undefined }> = { k: undefined, timeout: undefined, filter: undefined, signal: undefined, rerank: undefined, privacy: undefined };
const live: Required<{ [K in keyof TypeaheadOptions]: undefined }> = {
  k: undefined, timeout: undefined, filter: undefined, rerank: undefined, privacy: undefined, debounce: undefined, minLength: undefined, remember: undefined,
};
const given: ConnectOptions = options;
export async function page(): Promise<void> {
  using lazy = SearchClient.create('https://server.test/', given);
  const state: 'webgpu' | 'cpu' | undefined = lazy.device;
  lazy.addEventListener('request', ({ detail }) => void detail.request.body.length);
  lazy.addEventListener('modelchange', ({ detail }) => void detail.to.fingerprint.length);
  lazy.addEventListener('devicechange', ({ detail }) => void [detail.from === detail.to, detail.reason.length]);
  lazy.addEventListener('progress', ({ detail }) => void (detail.status === 'progress' && detail.loaded < detail.total));
  lazy.addEventListener('anything', (event: Event) => void event.type);
  const client = await SearchClient.connect('https://server.test/', given);
  const sure: 'webgpu' | 'cpu' = client.device;
  const dim: number = client.model.dim;
  await client.search('who', search);
  using box = typeahead(lazy, live);
  await using encoder = await QuestionEncoder.load('https://server.test/v1/model', { headers: async () => ({ a: 'b' }), retry: { limit: 1 } });
  console.log(state, sure, dim, box.state.text, encoder.dim);
}
`,
  });
  const tsc = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url));
  const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' });
  assert.equal(status, 0, stdout);
  writeFileSync(path.join(folder, 'page.ts'), "import { SearchClient } from 'dpr-web';\nSearchClient.create('/', { retry: 'often' });\n");
  assert.notEqual(spawnSync(process.execPath, [tsc, '-p', folder]).status, 0, 'the check can fail');
});

test('the types that the package\'s entry reaches have nothing that only new compilers read', () => {
  const dist = fileURLToPath(new URL('../dist', import.meta.url));
  const reached = new Set(['index.d.ts']);
  for (const file of reached) {
    const text = readFileSync(path.join(dist, file), 'utf8');
    // Generic typed arrays are of TypeScript 5.7.
    assert.doesNotMatch(text, /Array<ArrayBuffer/, file);
    for (const [, name] of text.matchAll(/(?:from|import\()\s*'(\.[^']+)\.js'/g)) reached.add(path.join(path.dirname(file), `${name}.d.ts`));
  }
  assert.ok(reached.size > 15 && reached.size <= readdirSync(dist, { recursive: true }).length);
});
