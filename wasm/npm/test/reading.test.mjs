import assert from 'node:assert/strict';
import test from 'node:test';
import { DprWebError, SearchClient } from '../dist/index.js';
import { evictOldModels } from '../dist/weights/old-models.js';
import { FakeWorker, tinyModel, until, withGpu } from './fake-worker.mjs';
import { cachesInMemory, fakeFetch, fileOf, someBytes } from './helpers.mjs';

const TEXTS = ['two words', 'a text of more words', '', 'x'];

/** A safetensors file with these tensors of one byte each. */
function safetensors(names) {
  const header = Buffer.from(JSON.stringify(Object.fromEntries(names.map((name, at) => [name, { dtype: 'I8', shape: [1], data_offsets: [at, at + 1] }]))));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return new Uint8Array(Buffer.concat([length, header, Buffer.from(names.map((_, at) => at))]));
}

/**
 * A client of a server whose model has a reader. `script` is that of its workers; `serve` may answer in the server's place;
 * `change` edits the manifest.
 */
async function client(t, { script = {}, serve = () => undefined, change = () => {}, texts = TEXTS, options = {}, device = 'cpu' } = {}) {
  const { manifest, restore } = tinyModel();
  const files = globalThis.fetch;
  const encoderWeights = safetensors(['words', 'positions']);
  const own = { 'q8.encoder': encoderWeights, 'r.config': someBytes(11), 'r.tokenizer': someBytes(21), 'r.q8': someBytes(31) };
  const file = (name) => fileOf(own[name], `/v1/model/files/${name}`);
  manifest.weights = { q8: file('q8.encoder') };
  manifest.reader = {
    name: 'tiny reader',
    fingerprint: 'e'.repeat(64),
    max_tokens: 350,
    config: file('r.config'),
    tokenizer: file('r.tokenizer'),
    weights: { q8: { ...file('r.q8'), shares: ['words'] } },
  };
  change(manifest, file);
  const { calls, restore: restoreServer } = fakeFetch((url, init) => {
    const name = url.split('/').pop();
    const served = serve(name, init);
    if (served) return served;
    if (url.endsWith('/v1/model')) return Response.json(manifest);
    if (url.endsWith('/v1/search')) {
      const hits = texts.map((text, at) => ({ id: String(at), score: 1 / (at + 1), title: `title ${at}`, text }));
      return Response.json({ hits: hits.slice(0, JSON.parse(init.body).k), took_ms: 1 });
    }
    return name in own ? new Response(own[name]) : files(`https://server.test/${name}`, init);
  });
  t.after(() => {
    restoreServer();
    restore();
  });
  const workers = [];
  const createWorker = () => {
    const worker = new FakeWorker(script);
    workers.push(worker);
    script.made?.(worker, workers.length);
    return worker;
  };
  const made = await SearchClient.connect('https://server.test/', { device, dtype: 'q8', createWorker, retry: 0, ...options });
  t.after(() => made.dispose());
  const readers = () => workers.filter(({ commands }) => commands.includes('load_pair'));
  return { client: made, calls, workers, readers, manifest, asked: (name) => calls.filter(({ url }) => url.endsWith(name)).length };
}

/** So many processors until `t` ends. */
function withProcessors(t, hardwareConcurrency) {
  const original = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  Object.defineProperty(globalThis, 'navigator', { value: { userAgent: 'test', hardwareConcurrency }, configurable: true });
  t.after(() => (original ? Object.defineProperty(globalThis, 'navigator', original) : delete globalThis.navigator));
}

test('the reader is downloaded by the first answer, once, and answers are spans of the passages, best first', async (t) => {
  const events = [];
  const { client: asking, asked, readers } = await client(t, { options: { onProgress: (event) => events.push(event) } });
  await asking.search('who');
  assert.equal(asked('r.q8'), 0, 'a search alone needs no reader');
  const seen = [];
  const { answers, hits, timings, request } = await asking.answer('who', { count: 5, onAnswer: (progress) => seen.push(progress) });
  assert.deepEqual(answers.map(({ text, passage }) => [text, passage]), [['a', 1], ['two', 0], ['x', 3]]);
  for (const { text, hit, start, end, passage } of answers) {
    assert.equal(hit.text.slice(start, end), text);
    assert.equal(hit, hits[passage]);
  }
  // The softmax of the lengths 9, 20 and 1; the passage without a text is none.
  const sum = Math.exp(9) + Math.exp(20) + Math.exp(1);
  assert.ok(Math.abs(answers[0].selection - Math.exp(20) / sum) < 1e-12);
  assert.ok(answers.every(({ confidence, selection, score }) => confidence === selection * score && score === 0.5));
  assert.deepEqual(seen.map(({ read, total }) => [read, total]), [[1, 4], [2, 4], [3, 4], [4, 4]]);
  assert.deepEqual(seen.at(-1).answers, answers);
  assert.ok(timings.readMs > 0 && request.body.includes('vector'));
  await asking.answer('who else');
  assert.equal(asked('r.q8'), 1);
  assert.ok(readers().every(({ commands }) => commands.filter((type) => type === 'load_pair').length === 1));
  const finished = events.filter(({ status, file }) => status === 'done' && file === 'r.q8');
  assert.deepEqual(finished.map(({ source }) => source), ['network']);
});

test('the search of an answer is as private as it is asked to be, and reads no more than an encrypted search finds', async (t) => {
  const { client: made, calls } = await client(t);
  const before = calls.length;
  for (const privacy of ['encrypted', 'blurred']) {
    // This server offers neither.
    await assert.rejects(made.answer('w', { privacy }), DprWebError);
  }
  assert.deepEqual(calls.slice(before).filter(({ url }) => String(url).endsWith('/v1/search')), []);
  const asked = [];
  made.search = async (_text, options) => {
    asked.push(options);
    return { hits: [], timings: {} };
  };
  await made.answer('w', { privacy: { mode: 'encrypted' } });
  await made.answer('w');
  assert.deepEqual(asked.map(({ k, privacy }) => [k, privacy]), [[10, { mode: 'encrypted' }], [20, undefined]]);
});

test('passages that are given are read, and nothing is sent', async (t) => {
  const { client: asking, calls } = await client(t);
  const hits = ['one two', 'three four five'].map((text, at) => ({ id: String(at), score: 1, title: '', text }));
  await asking.answer('who', { hits });
  const before = calls.length;
  const { answers, request, hits: read } = await asking.answer('who', { hits, count: 2, depth: 1 });
  assert.deepEqual(answers.map(({ text }) => text), ['three', 'one']);
  assert.deepEqual([read, request, calls.length], [hits, undefined, before]);
  assert.deepEqual((await asking.answer('who', { hits: [] })).answers, []);
});

test('re-ranking orders the first passages and leaves the others behind them, and the first k come', async (t) => {
  const { client: searching, calls, workers } = await client(t, { texts: ['ab', 'abcd', '', 'abc', 'a longer one'] });
  const { hits, reranked, timings } = await searching.search('who', { k: 5, rerank: { depth: 4 } });
  assert.equal(reranked, true);
  assert.deepEqual(hits.map(({ id, rerankScore }) => [id, rerankScore]), [['1', 4], ['3', 3], ['0', 2], ['2', undefined], ['4', undefined]]);
  assert.ok(timings.rerankMs >= 0);
  const types = new Set(workers.flatMap(({ commands }) => commands));
  assert.ok(types.has('score') && !types.has('read'), 'the reader looks for no answers');
  const few = await searching.search('who', { k: 2, rerank: {} });
  assert.deepEqual(few.hits.map(({ id }) => id), ['4', '1'], 'the best two of 20');
  assert.equal(JSON.parse(calls.at(-1).init.body).k, 20);
  assert.equal((await searching.search('who')).reranked, undefined);
  const many = await searching.searchMany([], { rerank: {} });
  assert.deepEqual(many, []);
});

test('a reranker is taken before a reader for re-ranking, and not for answers', async (t) => {
  const change = (manifest) => (manifest.reranker = { ...manifest.reader, fingerprint: 'd'.repeat(64) });
  const kinds = [];
  const script = { made: (worker) => (worker.asked = ({ type, kind }) => type === 'load_pair' && kinds.push(kind)) };
  const { client: searching } = await client(t, { change, script });
  await searching.search('who', { rerank: {} });
  assert.deepEqual([...new Set(kinds)], ['reranker']);
  await searching.answer('who');
  assert.deepEqual([...new Set(kinds)], ['reranker', 'reader']);
});

test('a server without a reader: answers are refused before anything is sent, searches say that they are not re-ranked', async (t) => {
  const { client: asking, calls } = await client(t, { change: (manifest) => delete manifest.reader });
  const before = calls.length;
  // The small encoder of a server has none beside it, although its own has.
  await assert.rejects(asking.answer('who'), { name: 'ManifestError', code: 'no_reader', fix: /for the model of this encoder/ });
  assert.equal(calls.length, before);
  const { hits, reranked, rerankError } = await asking.search('who', { rerank: {} });
  assert.deepEqual([hits.length, reranked, rerankError.code], [4, false, 'no_reader']);
});

for (const [name, answer, code] of [
  ['is missing', () => new Response('', { status: 404 }), 'download_failed'],
  ['is damaged', () => new Response(someBytes(31).reverse()), 'corrupted_file'],
  ['is too long', () => new Response(someBytes(400)), 'corrupted_file'],
  ['breaks off', () => new Response(someBytes(7)), 'download_failed'],
]) {
  test(`where the reader's file ${name}, searches answer in the server's order, answers reject, and the next try may work`, async (t) => {
    let isBroken = true;
    const { client: asking } = await client(t, { serve: (name) => (name === 'r.q8' && isBroken ? answer() : undefined) });
    const { hits, reranked, rerankError } = await asking.search('who', { rerank: { depth: 20 } });
    assert.deepEqual(hits.map(({ id }) => id), ['0', '1', '2', '3']);
    assert.equal(reranked, false);
    assert.equal(rerankError.code, code);
    await assert.rejects(asking.answer('who'), (error) => error instanceof DprWebError && error.code === code);
    assert.equal((await asking.search('who')).hits.length, 4);
    isBroken = false;
    assert.equal((await asking.answer('who')).answers[0].text, 'a');
  });
}

test('an abort in the middle rejects at once, and no worker begins another passage', async (t) => {
  withProcessors(t, 2);
  const texts = Array.from({ length: 30 }, (_, at) => `passage ${at}`);
  const { client: asking, readers } = await client(t, { texts });
  const controller = new AbortController();
  const reason = new Error('enough');
  let told = 0;
  const onAnswer = ({ read }) => {
    told = read;
    if (read === 3) controller.abort(reason);
  };
  await assert.rejects(asking.answer('who', { depth: 30, signal: controller.signal, onAnswer }), reason);
  const begun = () => readers().flatMap(({ commands }) => commands).filter((type) => type === 'read').length;
  const at = begun();
  assert.ok(at <= 3 + 2, `${at} passages begun`);
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.equal(begun(), at);
  assert.equal(told, 3);
  assert.equal((await asking.answer('who', { depth: 3 })).answers.length, 1, 'and the reader goes on');
});

test('a signal that fired before, and a client that is disposed, end it', async (t) => {
  const { client: asking, readers } = await client(t);
  const reason = new Error('enough');
  await assert.rejects(asking.answer('who', { signal: AbortSignal.abort(reason) }), reason);
  await assert.rejects(asking.search('who', { rerank: {}, signal: AbortSignal.abort(reason) }), reason);
  await assert.rejects(asking.answer('who', { onAnswer: () => asking.dispose() }), { name: 'DisposedError' });
  await until(() => readers().every(({ terminated }) => terminated));
  await assert.rejects(asking.answer('who'), { name: 'DisposedError' });
});

for (const [processors, passages, expected] of [
  [1, 20, 1],
  [3, 20, 3],
  [16, 20, 4],
  [16, 2, 2],
]) {
  test(`${processors} processors read ${passages} passages in ${expected} workers`, async (t) => {
    withProcessors(t, processors);
    const { client: asking, readers, asked } = await client(t, { texts: Array.from({ length: passages }, () => 'text') });
    await asking.answer('who');
    assert.equal(readers().length, expected);
    assert.equal(asked('r.q8'), 1);
  });
}

test('the first worker reads alone where no other can be started', async (t) => {
  withProcessors(t, 4);
  // The first is the question encoder's, the second the first reader's.
  const made = (worker, number) => number > 2 && Object.assign(worker, { postMessage: () => setTimeout(() => worker.onerror({ message: 'no memory' })) });
  const { client: asking } = await client(t, { script: { made } });
  assert.equal((await asking.answer('who', { count: 9 })).answers.length, 3);
});

test('a worker that ends is replaced and its passage read again; one that ends each time is an EncoderError', async (t) => {
  withProcessors(t, 1);
  const script = { cpu: {} };
  let deaths = 1;
  script.made = (worker) => {
    worker.asked = ({ type }) => (script.cpu[type] = (type === 'read' || type === 'score') && deaths-- > 0 ? 'fatal' : undefined);
  };
  const { client: asking, readers } = await client(t, { script });
  assert.equal((await asking.answer('who', { count: 9 })).answers.length, 3);
  assert.equal(readers().length, 2);
  deaths = Infinity;
  await assert.rejects(asking.answer('who'), { name: 'EncoderError', code: 'reader_failed' });
  const { reranked, rerankError, hits } = await asking.search('who', { rerank: {} });
  assert.deepEqual([reranked, rerankError.code, hits.length], [false, 'reader_failed', 4]);
});

test('what the module refuses, as a tokenizer of another model, is an EncoderError with its words', async (t) => {
  const { client: asking } = await client(t, { script: { cpu: { load_pair: 'the tokenizer has 9 tokens, the vocabulary 8' } } });
  await assert.rejects(asking.answer('who'), (error) => error.code === 'reader_failed' && error.message.includes('has 9 tokens'));
  assert.equal((await asking.search('who', { rerank: {} })).reranked, false);
});

test('WebGPU reads passages in batches, and the CPU goes on where it fails', async (t) => {
  withGpu(t, { hardwareConcurrency: 2 });
  const script = { webgpu: {}, cpu: {} };
  const batches = [];
  script.made = (worker) => (worker.asked = ({ type, texts }) => ['read', 'score'].includes(type) && batches.push([type, worker.device, texts.length]));
  const texts = Array.from({ length: 12 }, (_, at) => `passage ${at}`);
  const events = [];
  const { client: asking } = await client(t, { script, texts, device: 'webgpu', options: { onProgress: (event) => events.push(event) } });
  await asking.answer('who');
  await asking.search('who', { rerank: { depth: 12 } });
  assert.deepEqual(batches, [['read', 'webgpu', 8], ['read', 'webgpu', 4], ['score', 'webgpu', 8], ['score', 'webgpu', 4]]);
  script.webgpu.read = 'fatal';
  batches.length = 0;
  assert.equal((await asking.answer('who', { count: 12 })).answers.length, 12);
  assert.ok(batches.some(([, device]) => device === 'cpu'));
  assert.ok(events.some(({ status, to }) => status === 'fallback' && to === 'cpu'));
});

test('of two questions at once both go on on the CPU where WebGPU fails', async (t) => {
  withGpu(t, { hardwareConcurrency: 2 });
  const script = { webgpu: { read: 'fatal' }, cpu: {} };
  const events = [];
  const { client: asking } = await client(t, { script, device: 'webgpu', options: { onProgress: (event) => events.push(event) } });
  const both = await Promise.all(['who', 'what'].map((question) => asking.answer(question, { count: 3 })));
  assert.deepEqual(both.map(({ answers }) => answers.length), [3, 3]);
  assert.equal(events.filter(({ status, to }) => status === 'fallback' && to === 'cpu').length, 1);
});

test('options that cannot be are refused, and depth over what came reads what came', async (t) => {
  const { client: asking } = await client(t);
  for (const options of [{ depth: 0 }, { depth: 1.5 }, { depth: NaN }, { count: -1 }, { maxAnswerTokens: 0 }]) {
    await assert.rejects(asking.answer('who', options), { name: 'OptionError' });
  }
  await assert.rejects(asking.search('who', { rerank: { depth: 0 } }), { name: 'OptionError' });
  for (const k of [0, -1, 1.5, NaN]) {
    await assert.rejects(asking.search('who', { k, rerank: {} }), { name: 'OptionError', message: new RegExp(`\\\`k\\\` is ${k}`) });
  }
  assert.equal((await asking.answer('who', { depth: 1000 })).hits.length, 4);
});

test('no passages, and passages without texts, have no answers', async (t) => {
  const { client: asking, asked } = await client(t, { texts: [] });
  assert.deepEqual((await asking.answer('who')).answers, []);
  assert.equal(asked('r.q8'), 0, 'nothing was read');
  const { client: other } = await client(t, { texts: ['', ''] });
  assert.deepEqual((await other.answer('who', { count: 3 })).answers, []);
  assert.deepEqual((await other.search('who', { rerank: {} })).hits.map(({ id }) => id), ['0', '1']);
});

const bad = [
  ['a list', [], /`reader` of the model manifest/],
  ['null', null, /`reader` of the model manifest/],
  ['no fingerprint', { fingerprint: 'x' }, /fingerprint/],
  ['no limit', { max_tokens: 0 }, /max_tokens/],
  ['no weights', { weights: undefined }, /weights/],
  ['weights of unknown formats alone', { weights: { q2: {} } }, /no weights that this page can use/],
  ['weights of null', { weights: { q8: null } }, /weights\.q8/],
  ['a huge file', (file) => ({ weights: { q8: { ...file('r.q8'), bytes: 1e12 } } }), /bytes/],
  ['shares that are a string', (file) => ({ weights: { q8: { ...file('r.q8'), shares: 'words' } } }), /shares/],
  ['a configuration of another form', { config: 'config.json' }, /reader\.config/],
];
for (const [name, part, message] of bad) {
  test(`a reader in the manifest with ${name} is a ManifestError, and searches go on`, async (t) => {
    const change = (manifest, file) => {
      const given = typeof part === 'function' ? part(file) : part;
      manifest.reader = given === null || Array.isArray(given) ? given : { ...manifest.reader, ...given };
    };
    const { client: asking } = await client(t, { change });
    await assert.rejects(asking.answer('who'), (error) => error.name === 'ManifestError' && message.test(error.message));
    assert.equal((await asking.search('who')).hits.length, 4);
  });
}

test('the embeddings that both have are handed over to the reader, and a file without them is refused', async (t) => {
  let files;
  const script = { made: (worker) => (worker.asked = (command) => command.type === 'load_pair' && (files = command.files)) };
  const { client: asking } = await client(t, { script });
  await asking.answer('who');
  assert.deepEqual(files.shared, safetensors(['words']));
  for (const shares of [['other'], ['__proto__'], ['words', 'constructor']]) {
    const change = (manifest) => (manifest.reader.weights.q8.shares = shares);
    const { client: other } = await client(t, { change });
    await assert.rejects(other.answer('who'), (error) => error.name === 'ManifestError' && error.message.includes('has no tensor'));
  }
});

test("the reader's files stay in the browser's cache while old models go, and the next page downloads none", async (t) => {
  globalThis.caches = cachesInMemory();
  t.after(() => delete globalThis.caches);
  const { client: asking, asked } = await client(t);
  await asking.answer('who');
  await evictOldModels();
  const again = await SearchClient.connect('https://server.test/', { device: 'cpu', dtype: 'q8', createWorker: () => new FakeWorker({}) });
  t.after(() => again.dispose());
  await again.answer('who');
  assert.equal(asked('r.q8'), 1);
  assert.equal(asked('r.tokenizer'), 1);
});
