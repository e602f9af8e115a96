import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { fileFetch } from '../../dist/node/files.js';
import { fileOf, someBytes } from '../helpers.mjs';
import { standInPackage, temporaryFolder } from '../stand-in.mjs';
import { host, passage, URL_OF_INDEX } from '../static-host.mjs';
import { until } from './dom.mjs';
import { FILES, manifest, modelServer as server } from './model-server.mjs';

/** The package with stand-ins for its modules, as Node imports it. */
async function installed(t) {
  const folder = standInPackage(temporaryFolder(t));
  const load = (name) => import(pathToFileURL(path.join(folder, 'dist', name)).href);
  return { folder, ...(await load('node/index.js')), ...(await load('index.js')) };
}

/** A model in a folder, with its manifest. */
function modelFolder(t) {
  const folder = temporaryFolder(t);
  for (const [name, bytes] of Object.entries(FILES)) writeFileSync(path.join(folder, name), bytes);
  writeFileSync(path.join(folder, 'manifest.json'), JSON.stringify(manifest((name) => name)));
  return { folder, address: pathToFileURL(path.join(folder, 'manifest.json')) };
}

for (const engine of ['thread', 'inline']) {
  test(`an encoder of files on disk encodes (${engine})`, async (t) => {
    const { loadEncoder } = await installed(t);
    const encoder = await loadEncoder(modelFolder(t).address, { engine, dtype: 'f32' });
    assert.deepEqual([...(await encoder.encode('who'))], [3, 3, 3, 3]);
    assert.deepEqual([await encoder.countTokens('who'), encoder.isShared], [3, false]);
    assert.deepEqual((await Promise.all(['a', 'ab'].map((text) => encoder.encode(text)))).map(([first]) => first), [1, 2]);
    assert.deepEqual([encoder.device, encoder.dtype, encoder.dim], ['cpu', 'f32', 4]);
    encoder.dispose();
    await assert.rejects(encoder.encode('who'), { code: 'disposed' });
  });

  test(`a client searches a server, and no words go to it (${engine})`, async (t) => {
    const { connect, SearchClient } = await installed(t);
    const { url, asked } = await server(t);
    const client = await connect(url, { engine, retry: 0 });
    assert.ok(client instanceof SearchClient);
    const { hits, request } = await client.search('who won');
    assert.deepEqual(hits.map(({ id }) => id), ['7']);
    assert.ok(!request.body.includes('who'));
    assert.equal(asked.at(-1), 'POST /v1/search');
    client.dispose();
  });

  test(`a missing module and a missing file are named (${engine})`, async (t) => {
    const { loadEncoder } = await installed(t);
    const { address, folder } = modelFolder(t);
    const wasmUrl = { cpu: pathToFileURL(path.join(folder, 'missing.wasm')) };
    await assert.rejects(loadEncoder(address, { engine, wasmUrl }), /missing\.wasm could not be/);
    await assert.rejects(loadEncoder(pathToFileURL(path.join(folder, 'missing.json')), { engine, retry: 0 }), { name: 'DownloadError', message: /missing\.json.*ENOENT/ });
  });

  test(`a question with the apostrophe of telephones, and with blanks around it, is the one that is trained on (${engine})`, async (t) => {
    const { folder, QuestionEncoder, loadEncoder } = await installed(t);
    // A stand-in whose vector is the question itself.
    const script = path.join(folder, 'wasm/cpu/dpr_wasm.js');
    const codes = 'return Float32Array.from({ length: 4 }, (_, at) => text.charCodeAt(at + 2));';
    writeFileSync(script, readFileSync(script, 'utf8').replace('return new Float32Array(4).fill(text.length);', codes));
    const encoder = await loadEncoder(modelFolder(t).address, { engine });
    const typed = async (text) => {
      const { tokens } = await QuestionEncoder.session(encoder).ask({ type: 'tokens', text }, 'tokens');
      return [[...(await encoder.encode(text))], await encoder.countTokens(text), [...tokens]];
    };
    assert.deepEqual(await typed(' who\u2019s the mayor '), await typed("who's the mayor"));
    assert.equal((await typed(' who\u2019s the mayor '))[1], 15);
    encoder.dispose();
  });

  test(`a static index is searched without a server, whole and by its buckets (${engine})`, async (t) => {
    const { connect } = await installed(t);
    const { asked } = host(t, [20, 13], false, 3);
    const local = await connect(URL_OF_INDEX, { engine, privacy: 'local' });
    asked();
    const found = await local.search('123456789', { k: 3 });
    assert.deepEqual(found.hits.map(({ score, ...rest }) => rest), [passage(9), passage(10), passage(11)]);
    assert.deepEqual([asked(), found.requests], [[], []]);
    local.dispose();
    const client = await connect(URL_OF_INDEX, { engine, privacy: { mode: 'bucket', probes: 2, decoys: 2 } });
    const { hits, requests } = await client.search('123456789', { k: 5 });
    assert.deepEqual(hits.map(({ id }) => id), ['p0', 'p2', 'p4', 'p9', 'p11']);
    assert.equal(requests.length, 4);
    client.dispose();
  });
}

test('where the module for relaxed SIMD is missing, the plain one is started (inline)', async (t) => {
  const { folder, loadEncoder } = await installed(t);
  t.mock.method(WebAssembly, 'validate', () => true);
  const started = async () => {
    const modules = [];
    const onProgress = (event) => event.status === 'worker' && modules.push(...event.fetched.map((url) => url.split('/').at(-2)));
    (await loadEncoder(modelFolder(t).address, { engine: 'inline', onProgress })).dispose();
    return modules;
  };
  assert.deepEqual(await started(), ['relaxed']);
  rmSync(path.join(folder, 'wasm/relaxed'), { recursive: true });
  assert.deepEqual(await started(), ['cpu']);
});

test('a module that traps in this thread is replaced by a new one, with a memory of its own (inline)', async (t) => {
  const { folder, loadEncoder } = await installed(t);
  // A module that a question spoils for good, as a trap does.
  const script = path.join(folder, 'wasm/cpu/dpr_wasm.js');
  const spoilt = `async encode(text) {
    if (text === 'trap') wasm.isSpoilt = true;
    if (wasm.isSpoilt) throw new WebAssembly.RuntimeError('unreachable executed');`;
  writeFileSync(
    script,
    readFileSync(script, 'utf8')
      .replace('async encode(text) {', spoilt)
      .replace('wasm = await load(', 'if (wasm) return wasm;\n  wasm = await load(')
      .replace('return await WebAssembly.instantiateStreaming(module, imports)', 'return { ...(await WebAssembly.instantiateStreaming(module, imports)) }'),
  );
  const encoder = await loadEncoder(modelFolder(t).address, { engine: 'inline' });
  const other = await loadEncoder(modelFolder(t).address, { engine: 'inline' });
  for (let turn = 0; turn < 2; turn++) {
    assert.deepEqual([...(await encoder.encode('who'))], [3, 3, 3, 3]);
    await assert.rejects(encoder.encode('trap'), { name: 'EncoderError', message: /unreachable/ });
    assert.deepEqual([...(await other.encode('whom'))], [4, 4, 4, 4], 'an encoder that did not ask is answered');
  }
  other.dispose();
  assert.deepEqual([...(await encoder.encode('where'))], [5, 5, 5, 5]);
  encoder.dispose();
});

test('a model that fails without a trap ends no other encoder, and nothing is printed (inline)', async (t) => {
  const { folder, loadEncoder } = await installed(t);
  const script = path.join(folder, 'wasm/cpu/dpr_wasm.js');
  const failing = `constructor() {
    globalThis.encodersMade = (globalThis.encodersMade ?? 0) + 1;
  }
  async encode(text) {
    if (text === 'trap') throw new WebAssembly.RuntimeError('unreachable executed');
    this.isBroken ||= text === 'break';
    if (this.isBroken) throw new Error('no memory is left');`;
  writeFileSync(script, readFileSync(script, 'utf8').replace('async encode(text) {', failing));
  t.after(() => delete globalThis.encodersMade);
  const printed = t.mock.method(console, 'error', () => undefined);
  const encoder = await loadEncoder(modelFolder(t).address, { engine: 'inline' });
  const other = await loadEncoder(modelFolder(t).address, { engine: 'inline' });
  await assert.rejects(encoder.encode('break'), { name: 'EncoderError', message: /no memory is left/ });
  assert.deepEqual([...(await encoder.encode('who'))], [3, 3, 3, 3]);
  const made = globalThis.encodersMade;
  assert.deepEqual([...(await other.encode('whom'))], [4, 4, 4, 4]);
  assert.equal(globalThis.encodersMade, made, 'the other encoder is the one that was made first');
  await assert.rejects(encoder.encode('trap'), { name: 'EncoderError', message: /unreachable/ });
  assert.deepEqual([...(await other.encode('whom'))], [4, 4, 4, 4]);
  assert.ok(globalThis.encodersMade > made, 'after a trap no encoder of the module is touched');
  assert.equal(printed.mock.callCount(), 0);
  encoder.dispose();
  other.dispose();
});

test('`createClient` loads nothing before the first search', async (t) => {
  const { createClient } = await installed(t);
  const { url, asked } = await server(t);
  const client = createClient(url);
  assert.deepEqual([client.state, asked.length], ['idle', 0]);
  assert.equal((await client.search('who')).hits.length, 1);
  client.dispose();
});

test('model files are kept in a folder by their sum; a spoiled one is fetched again', async (t) => {
  const { connect } = await installed(t);
  const { url, asked } = await server(t);
  const cacheDirectory = path.join(temporaryFolder(t), 'kept');
  const visit = async () => {
    asked.length = 0;
    const client = await connect(url, { cacheDirectory });
    client.dispose();
    await until(() => readdirSync(cacheDirectory).filter((name) => /^[0-9a-f]{64}$/.test(name)).length === 3);
    return asked.filter((line) => line.includes('/files/')).length;
  };
  assert.deepEqual([await visit(), await visit()], [3, 0]);
  assert.equal(readdirSync(cacheDirectory).length, 3, 'no part of a file is left');
  writeFileSync(path.join(cacheDirectory, fileOf(FILES.q8).sha256), 'spoiled');
  assert.equal(await visit(), 1);
});

test('files of private modes are kept in the folder too, and those of other hosts are not', async (t) => {
  const directory = path.join(temporaryFolder(t), 'kept');
  const bytes = someBytes(40);
  const { sha256 } = fileOf(bytes);
  let asked = 0;
  const answer = async () => {
    asked++;
    return new Response(bytes);
  };
  const get = fileFetch(answer, { readsFiles: false, directory });
  for (const [path, most] of [
    [`v1/private/files/${sha256}/projection.f16`, 1],
    [`v1/encrypted/files/${sha256}/rank.hint`, 1],
    [`codes.${sha256}.bin`, 2],
  ]) {
    rmSync(directory, { recursive: true, force: true });
    asked = 0;
    for (let turn = 0; turn < 2; turn++) {
      assert.deepEqual(new Uint8Array(await (await get(`https://server.test/dpr/${path}`)).arrayBuffer()), bytes);
      if (most === 1) await until(() => existsSync(directory) && readdirSync(directory).includes(sha256));
      else await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assert.deepEqual([asked, existsSync(directory)], [most, most === 1], path);
  }
});

test('parts that a process has left in the folder go a day later, when another file is kept', async (t) => {
  const directory = temporaryFolder(t);
  const bytes = someBytes(40);
  const { sha256 } = fileOf(bytes);
  const part = (id) => `${'a'.repeat(64)}.${id}`;
  const [old, young] = ['11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222'].map(part);
  for (const name of [old, young, 'notes.txt']) writeFileSync(path.join(directory, name), 'part');
  const twoDaysAgo = Date.now() / 1000 - 2 * 24 * 60 * 60;
  for (const name of [old, 'notes.txt']) utimesSync(path.join(directory, name), twoDaysAgo, twoDaysAgo);
  const get = fileFetch(async () => new Response(bytes), { readsFiles: false, directory });
  await (await get(`https://server.test/v1/model/files/${sha256}/weights.bin`)).arrayBuffer();
  await until(() => !existsSync(path.join(directory, old)));
  assert.deepEqual(readdirSync(directory).sort(), [sha256, young, 'notes.txt'].sort());
});

test('a folder that cannot be written keeps nothing, the encoder starts, and the process is warned once', async (t) => {
  const warnings = [];
  const onWarning = (warning) => warning.name === 'DprWebWarning' && warnings.push(warning);
  process.on('warning', onWarning);
  t.after(() => process.off('warning', onWarning));
  const { connect } = await installed(t);
  const { url } = await server(t);
  const file = path.join(temporaryFolder(t), 'a-file');
  writeFileSync(file, '');
  for (let start = 0; start < 2; start++) {
    const client = await connect(url, { cacheDirectory: file });
    assert.equal(client.state, 'ready');
    client.dispose();
  }
  await until(() => warnings.length > 0);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(warnings.length, 1);
  assert.ok(warnings[0].message.startsWith(`\`cacheDirectory\` ${file} cannot be written: `), warnings[0].message);
  assert.match(warnings[0].detail, /can be written/);
});

test('a server cannot have files of this machine read', async (t) => {
  const { connect, loadEncoder } = await installed(t);
  const { folder } = modelFolder(t);
  const { url } = await server(t, () => manifest((name) => pathToFileURL(path.join(folder, name)).href));
  await assert.rejects(connect(url, { retry: 0 }), { name: 'DownloadError', message: /403/ });
  await assert.rejects(loadEncoder(`${url}v1/model`, { retry: 0 }), { name: 'DownloadError', message: /403/ });
});

test('a process that has encoded ends by itself, and one that waits for a vector does not', (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(path.join(folder, 'package'));
  standInPackage(path.join(folder, 'package'));
  const model = modelFolder(t);
  writeFileSync(
    path.join(folder, 'main.mjs'),
    `import { loadEncoder } from './package/dist/node/index.js';
     const encoder = await loadEncoder(${JSON.stringify(model.address.href)});
     console.log((await encoder.encode('who')).join());`,
  );
  const { status, stdout, stderr } = spawnSync(process.execPath, ['main.mjs'], { cwd: folder, encoding: 'utf8', timeout: 60_000 });
  assert.deepEqual([status, stdout], [0, '3,3,3,3\n'], stderr);
});
