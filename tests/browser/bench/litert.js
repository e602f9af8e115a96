// In the page: the modules of dpr-web for the CPU beside LiteRT.js, which takes its build for relaxed SIMD where the
// browser has that. One thread, the same weights and token ids.

import { loadAndCompile, loadLiteRt, Tensor } from '@litertjs/core';
import { encodeTimes, f32Weights, idsOf, loadDpr } from './page.js';

/**
 * Times of one length: that of a question, with its ids, or of a passage, with ids of some words. LiteRT's model is
 * made for that length, and needs no padding.
 */
window.measureLitert = async (plan) => {
  await loadLiteRt('/peers/@litertjs/core/wasm/');
  const f32 = await loadDpr('cpu', await f32Weights());
  const { tokens } = plan;
  const ids = plan.question ? idsOf(f32.encoder, plan) : Uint32Array.from({ length: tokens }, (_, at) => 2000 + 7 * at);
  const engines = {
    'dpr-web f32': { ...f32, peers: ['LiteRT.js f32'] },
    'LiteRT.js f32': await loadPeer(`f32-${tokens}.tflite`, tokens),
    'dpr-web q8': { ...(await loadDpr('cpu', '/model/web/question_encoder.q8.safetensors')), peers: ['LiteRT.js int8'] },
    'LiteRT.js int8': await loadPeer(`int8-${tokens}.tflite`, tokens),
  };
  return encodeTimes(engines, ids, plan);
};

async function loadPeer(file, tokens) {
  const start = performance.now();
  const model = await loadAndCompile(`/litert/${file}`, { accelerator: 'wasm', cpuOptions: { numThreads: 1 } });
  const loadMs = performance.now() - start;
  const run = async (ids) => {
    const inputs = [new Tensor(Int32Array.from(ids), [1, tokens]), new Tensor(new Float32Array(tokens).fill(1), [1, tokens])];
    const outputs = await model.run(inputs);
    const vector = outputs[0].toTypedArray().slice();
    for (const tensor of [...inputs, ...outputs]) tensor.delete();
    return vector;
  };
  return { loadMs, run };
}
