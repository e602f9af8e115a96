// In the page: the time to re-rank passages, by the package as pages use it, beside onnxruntime-web on the same encoder.

import { bytes, importOrt, loadDpr, loadOrt } from './page.js';

/** Tokens of a passage, and passages. */
const PASSAGE_TOKENS = 150;
const PASSAGES = 20;
const MODEL = '/model/question_encoder/';
const WEIGHTS = '/model/web/question_encoder.q8.safetensors';

/** Milliseconds of each run, for each engine. */
window.measureReading = async ({ question, runs }) => {
  const ort = await importOrt('ort.wasm.min.mjs');
  const { encoder } = await loadDpr('cpu', WEIGHTS);
  // Words of one token each, so that every passage has the same number.
  const texts = Array.from({ length: PASSAGES }, (_, at) => `${WORDS[at % WORDS.length]} `.repeat(PASSAGE_TOKENS));
  const tokens = encoder.tokenCount(question) + 1 + PASSAGE_TOKENS;
  encoder.free();
  const files = await readerFiles();
  const most = Math.min(4, navigator.hardwareConcurrency);
  const engines = [
    ['dpr-web q8, 1 worker', await loadClient(files, question, texts, 1)],
    ['onnxruntime-web int8, 1 thread', await loadPeer(ort, tokens)],
  ];
  if (most > 1) engines.push([`dpr-web q8, ${most} workers`, await loadClient(files, question, texts, most)]);
  const times = engines.map(() => []);
  const first = [];
  for (const [position, [, run]] of engines.entries()) first[position] = await run();
  for (let done = 0; done < runs; done++) {
    for (const [position, [, run]] of engines.entries()) times[position].push(await run());
  }
  return { passages: PASSAGES, tokens, rows: engines.map(([name], position) => ({ name, first: first[position], times: times[position] })) };
};

const WORDS = ['river', 'mountain', 'city', 'king', 'season', 'game', 'team', 'music', 'war', 'church'];

/** A client whose server is this page: it has the starter model, a reader of the same weights, and these passages. */
async function loadClient(files, question, texts, workers) {
  const { SearchClient } = await import('/package/dist/index.js');
  Object.defineProperty(navigator, 'hardwareConcurrency', { value: workers, configurable: true });
  const hits = texts.map((text, at) => ({ id: String(at), score: 1 / (at + 1), title: '', text }));
  const answer = async (url, init) => {
    const { pathname } = new URL(url, location.href);
    if (pathname === '/v1/model') return Response.json(files.manifest);
    if (pathname === '/v1/search') return Response.json({ hits, took_ms: 0 });
    return files.bytes.has(pathname) ? new Response(files.bytes.get(pathname)) : fetch(url, init);
  };
  const client = await SearchClient.connect('/', { device: 'cpu', dtype: 'q8', fetch: answer });
  return async () => {
    Object.defineProperty(navigator, 'hardwareConcurrency', { value: workers, configurable: true });
    const { timings, reranked, rerankError } = await client.search(question, { k: texts.length, rerank: { depth: texts.length } });
    if (!reranked) throw rerankError;
    return timings.rerankMs;
  };
}

/** The same encoder, once a passage, on one thread; the layers after it are a hundred-thousandth of the work. */
async function loadPeer(ort, tokens) {
  const { states } = await loadOrt(ort, 'model.int8.onnx', 'wasm');
  return async () => {
    const start = performance.now();
    for (let passage = 0; passage < PASSAGES; passage++) {
      await states(Uint32Array.from({ length: tokens }, (_, at) => 2000 + 7 * at + passage));
    }
    return performance.now() - start;
  };
}

/** The starter model's 8-bit file with the layers of a reader, and the manifest that offers it. */
async function readerFiles() {
  const [config, tokenizer, weights] = await Promise.all([`${MODEL}config.json`, `${MODEL}tokenizer.json`, WEIGHTS].map(bytes));
  const { dpr, ...rest } = JSON.parse(new TextDecoder().decode(config));
  const readerConfig = { ...rest, model_type: 'dpr', architectures: ['DPRReader'], projection_dim: 0 };
  const content = new Map();
  const file = async (url, bytes) => {
    content.set(url, bytes);
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
    return { url, bytes: bytes.length, sha256: Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('') };
  };
  const reader = {
    name: 'random reader',
    fingerprint: 'b'.repeat(64),
    max_tokens: 350,
    config: await file('/made/config.json', new TextEncoder().encode(JSON.stringify(readerConfig))),
    tokenizer: await file('/made/tokenizer.json', tokenizer),
    weights: { q8: await file('/made/reader.q8.safetensors', withHeads(weights, rest.hidden_size)) },
  };
  const manifest = {
    format_version: 1,
    name: 'starter model',
    fingerprint: 'a'.repeat(64),
    dim: rest.projection_dim || rest.hidden_size,
    similarity: 'dot',
    family: 'bert',
    max_question_tokens: 64,
    encoder: { config: await file('/made/encoder.json', config), tokenizer: reader.tokenizer },
    weights: { q8: await file('/made/encoder.q8.safetensors', weights) },
    reader,
  };
  return { manifest, bytes: content };
}

/** A safetensors file with the layers that score starts, ends and passages, without the projection. */
function withHeads(file, hidden) {
  const length = Number(new DataView(file.buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length)));
  const pieces = [];
  const entries = {};
  let size = 0;
  const put = (name, dtype, shape, data) => {
    entries[name] = { dtype, shape, data_offsets: [size, (size += data.length)] };
    pieces.push(data);
  };
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(header)) {
    if (!/__metadata__|encode_proj|dense\.\d/.test(name)) put(name, dtype, shape, file.subarray(8 + length + from, 8 + length + to));
  }
  for (const [name, outputs] of [['qa_outputs', 2], ['qa_classifier', 1]]) {
    const values = Float32Array.from({ length: outputs * hidden }, (_, at) => Math.sin(at * at));
    put(`${name}.weight`, 'F32', [outputs, hidden], new Uint8Array(values.buffer));
    put(`${name}.bias`, 'F32', [outputs], new Uint8Array(4 * outputs));
  }
  const text = new TextEncoder().encode(JSON.stringify(entries));
  const made = new Uint8Array(8 + text.length + size);
  new DataView(made.buffer).setBigUint64(0, BigInt(text.length), true);
  made.set(text, 8);
  let at = 8 + text.length;
  for (const piece of pieces) {
    made.set(piece, at);
    at += piece.length;
  }
  return made;
}
