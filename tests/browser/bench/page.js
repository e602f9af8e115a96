// In the page: loads the engines, lets them take turns, returns every time in milliseconds.

import { hasRelaxedSimd } from '/package/dist/worker/relaxed-simd.js';

/** Runs of one engine before the next has its turn. */
const BLOCK = 10;

/**
 * The module for the CPU that pages take here, with f32 and 8-bit weights, the one without relaxed SIMD, and
 * onnxruntime-web's wasm, one thread, with fp32 and int8.
 */
window.measureCpu = async (plan) => {
  const ort = await importOrt('ort.wasm.min.mjs');
  const [wide, narrow] = [await f32Weights(), '/model/web/question_encoder.q8.safetensors'];
  const f32 = await loadDpr('cpu', wide);
  const ids = idsOf(f32.encoder, plan);
  const engines = {
    'dpr-web f32': { ...f32, peers: ['onnxruntime-web fp32', 'dpr-web f32, plain SIMD'] },
    'onnxruntime-web fp32': await loadOrt(ort, 'model.onnx', 'wasm'),
    'dpr-web f32, plain SIMD': await loadDpr('plain', wide),
    'dpr-web q8': { ...(await loadDpr('cpu', narrow)), peers: ['onnxruntime-web int8', 'dpr-web q8, plain SIMD'] },
    'onnxruntime-web int8': await loadOrt(ort, 'model.int8.onnx', 'wasm'),
    'dpr-web q8, plain SIMD': await loadDpr('plain', narrow),
  };
  return encodeTimes(engines, ids, plan);
};

/** A smaller question encoder in 4 bits beside the model's own in 8, each with its own ids of the same tokens. */
window.measureSmall = async (plan) => {
  const model = await loadDpr('cpu', '/model/web/question_encoder.q8.safetensors');
  const small = await loadDpr('cpu', await weightsOf('/small', 'q4'), '/small');
  const [ids, own] = [model, small].map(({ encoder }) => Array.from(idsOf(encoder, plan)));
  const inSmall = new Map(ids.map((id, position) => [id, own[position]]));
  const peer = 'the model, q8';
  const engines = {
    'small encoder, q4': { ...small, run: (ids) => small.run(ids.map((id) => inSmall.get(id))), peers: [peer] },
    [peer]: model,
  };
  return encodeTimes(engines, ids, plan);
};

/** The WebGPU module and onnxruntime-web's webgpu, on the same adapter. */
window.measureWebgpu = async (plan) => {
  const ort = await importOrt('ort.webgpu.min.mjs');
  const dpr = await loadDpr('webgpu', await f32Weights());
  const ids = idsOf(dpr.encoder, plan);
  const peer = 'onnxruntime-web webgpu';
  const engines = { 'dpr-web webgpu': { ...dpr, peers: [peer] }, [peer]: await loadOrt(ort, 'model.onnx', 'webgpu') };
  return encodeTimes(engines, ids, { ...plan, block: 1 });
};

export async function encodeTimes(named, ids, { runs, warmUp, block = BLOCK }) {
  const engines = Object.values(named);
  const times = engines.map(() => []);
  // Early: what somebody's first questions cost, while the browser still compiles the module.
  for (const [position, engine] of engines.entries()) {
    for (let run = 0; run < warmUp; run++) times[position].push(await timed(engine, ids));
  }
  const early = times.map((list) => list.splice(0));
  for (let done = 0; done < runs; done += block) {
    for (const [position, engine] of engines.entries()) {
      for (let run = 0; run < Math.min(block, runs - done); run++) times[position].push(await timed(engine, ids));
    }
  }
  const rows = [];
  for (const [position, [name, { loadMs, run, peers = [] }]] of Object.entries(named).entries()) {
    const similarity = cosine(await run(ids), await run(shuffled(ids)));
    rows.push({ name, peers, loadMs, early: early[position], steady: times[position], similarity });
  }
  return rows;
}

/** Another question of the same length. */
function shuffled(ids) {
  return [ids[0], ...Array.from(ids.slice(1, -1)).reverse(), ids.at(-1)];
}

function cosine(a, b) {
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

async function timed(engine, ids) {
  const start = performance.now();
  await engine.run(ids);
  return performance.now() - start;
}

/** @param device - `cpu`, `webgpu`, or `plain`, the module for the CPU that needs no relaxed SIMD */
export async function loadDpr(device, weightsUrl, model = '/model') {
  const files = ['config.json', 'tokenizer.json'].map((file) => `${model}/question_encoder/${file}`);
  const [config, tokenizer, weights] = await Promise.all([...files, weightsUrl].map(bytes));
  const start = performance.now();
  const build = device === 'cpu' && hasRelaxedSimd() ? 'relaxed' : device.replace('plain', 'cpu');
  // The modules for the CPU have one script; under another address it has a memory of its own.
  const module = await import(device === 'webgpu' ? '/dpr/webgpu/dpr_wasm.js' : `/dpr/cpu/dpr_wasm.js#${device}`);
  await module.default({ module_or_path: `/dpr/${build}/dpr_wasm_bg.wasm` });
  const encoder = await module.QuestionEncoder.load(config, tokenizer, weights);
  return { encoder, loadMs: performance.now() - start, run: (ids) => encoder.encodeTokens(ids) };
}

export async function importOrt(file) {
  const ort = await import(`/ort/${file}`);
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = '/ort/';
  ort.env.logLevel = 'error';
  return ort;
}

export async function loadOrt(ort, file, provider) {
  const model = await bytes(`/onnx/${file}`);
  const start = performance.now();
  const session = await ort.InferenceSession.create(model, { executionProviders: [provider], graphOptimizationLevel: 'all' });
  const loadMs = performance.now() - start;
  /** The states of all tokens. */
  const states = async (ids) => {
    const shape = [1, ids.length];
    const { last_hidden_state } = await session.run({
      input_ids: new ort.Tensor('int64', BigInt64Array.from(ids, BigInt), shape),
      attention_mask: new ort.Tensor('int64', new BigInt64Array(ids.length).fill(1n), shape),
    });
    return last_hidden_state.getData();
  };
  // The same work: mean over the tokens, unit length.
  const run = async (ids) => meanPooled(await states(ids), ids.length);
  return { loadMs, run, states };
}

function meanPooled(states, tokens) {
  const dim = states.length / tokens;
  const vector = new Float32Array(dim);
  for (let i = 0; i < states.length; i++) vector[i % dim] += states[i] / tokens;
  const norm = Math.hypot(...vector);
  return vector.map((value) => value / norm);
}

export function idsOf(encoder, { question, tokens }) {
  const ids = encoder.tokens(question);
  if (ids.length !== tokens) throw new Error(`${ids.length} tokens, expected ${tokens}`);
  return ids;
}

/** Where a model's exported weights are, by the export's own description. */
async function weightsOf(model, dtype) {
  const { weights } = await (await fetch(`${model}/web/web.json`)).json();
  return `${model}/${weights[dtype].path}`;
}

/** Where the exported f32 weights are. */
export const f32Weights = () => weightsOf('/model', 'f32');

export async function bytes(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}; see the head of run.mjs for what has to be built`);
  return new Uint8Array(await response.arrayBuffer());
}
