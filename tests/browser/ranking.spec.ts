import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from './support/fixtures.ts';
import { PACKAGE } from './support/gateway.ts';
import { repository } from './support/paths.ts';
import { readerOf } from './support/reader.ts';
import { inEightBits } from './support/safetensors.ts';
import { golden } from './support/vectors.ts';

/** Passages that are ranked. */
const COUNT = 20;
const QUESTIONS = ['who won super bowl 50', 'when did the normans come to england', 'what does a prime number have'];
const crossEncoder = (name: string) => readFileSync(repository(`tests/fixtures/cross-encoders/${name}`));

const wasmOf = (module: string) => `${PACKAGE}wasm/${module}/dpr_wasm_bg.wasm`;

/** Logits of passages, `[questions * passages]`, by which they are put in order. */
interface Logits {
  /** What `relaxedProducts` returned, for each of the three in 8 bits. */
  engines: boolean[];
  f32: number[];
  /** In 8 bits: by the product of bytes with its sum, by the product of bytes, and by plain SIMD. */
  fused: number[];
  apart: number[];
  plain: number[];
}

for (const [kind, width, limit] of [
  ['Reader', 384, 0.99],
  // Where 2 of 32 inputs keep their bits, and weights are as coarse.
  ['CrossEncoder', 32, 0.95],
] as const) {
  const name = `a ${kind} of width ${width} in 8 bits ranks nearly as in f32, by the same sums on engines with relaxed SIMD`;
  test(name, async ({ blank, gateway }) => {
    test.setTimeout(600_000);
    const folder = path.join(repository('data/model', 'DPR_MODEL'), 'question_encoder');
    const encoder = (name: string) => readFileSync(path.join(folder, name));
    const random = readerOf(encoder('config.json'), encoder('model.safetensors'));
    const [config, tokenizer, f32] =
      kind === 'Reader'
        ? [random.config, encoder('tokenizer.json'), random.weights]
        : ['bert/config.json', 'bert/tokenizer.json', 'bert/model.safetensors'].map(crossEncoder);
    const files = [config!, tokenizer!, f32!, inEightBits(f32!)];
    gateway.intercept((request, response) => {
      const file = files[Number(/^\/ranking\/(\d)$/.exec(request.path)?.[1] ?? NaN)];
      if (file) response.end(file);
      return file !== undefined;
    });
    // Passages: those of the file come after its questions.
    const texts = golden().texts.filter((text) => text.length > 200).slice(0, COUNT);
    expect(texts.length).toBe(COUNT);
    const logits: Logits = await blank.evaluate(
      async ([kind, script, wasm, other, questions, texts]) => {
        const bytes = async (at: number) => new Uint8Array(await (await fetch(`/ranking/${at}`)).arrayBuffer());
        const [config, tokenizer, f32, q8] = await Promise.all([0, 1, 2, 3].map(bytes));
        // The fragment makes it a second instance of the script, with its own memory.
        const [relaxed, plain] = await Promise.all([import(script), import(`${script}#plain`)]);
        await Promise.all([relaxed.default({ module_or_path: wasm }), plain.default({ module_or_path: other })]);
        const titles = texts.map(() => '');
        const rank = async (module: typeof relaxed, weights: Uint8Array) => {
          const model = await module[kind].load(config, tokenizer, weights, undefined, undefined);
          const logits: number[] = [];
          for (const question of questions) {
            const got = kind === 'Reader' ? await model.read(question, titles, texts, 0, 1) : await model.score(question, titles, texts);
            logits.push(...(got as Float64Array));
          }
          model.free();
          return logits;
        };
        const engines = [relaxed.relaxedProducts(true)];
        const fused = await rank(relaxed, q8!);
        engines.push(relaxed.relaxedProducts(false), plain.relaxedProducts(true));
        return { engines, f32: await rank(plain, f32!), fused, apart: await rank(relaxed, q8!), plain: await rank(plain, q8!) };
      },
      [kind, `${PACKAGE}wasm/cpu/dpr_wasm.js`, wasmOf('relaxed'), wasmOf('cpu'), QUESTIONS, texts] as const,
    );
    expect(logits.engines).toEqual([true, false, false]);
    expect(logits.f32.length).toBe(QUESTIONS.length * texts.length);
    expect(logits.apart).toEqual(logits.fused);
    // The modules round otherwise outside the products: relaxed SIMD multiplies and adds with one rounding, so that an
    // input may be quantized to the next number.
    const relaxed = leastCorrelation(logits.f32, logits.apart);
    const plain = leastCorrelation(logits.f32, logits.plain);
    const between = leastCorrelation(logits.apart, logits.plain);
    const [a, b, c] = [relaxed, plain, between].map((value) => value.toFixed(4));
    console.log(`${kind} in 8 bits, least correlation: with f32 ${a} by relaxed SIMD, ${b} by plain; ${c} between them`);
    expect(Math.min(relaxed, plain, between)).toBeGreaterThan(limit);
  });
}

/** The least correlation over the questions, each of the logits of its own passages. */
function leastCorrelation(a: number[], b: number[]): number {
  const ofQuestion = (logits: number[], at: number) => logits.slice(at * COUNT, (at + 1) * COUNT);
  return Math.min(...QUESTIONS.map((_, at) => correlation(ofQuestion(a, at), ofQuestion(b, at))));
}

/** Pearson's correlation. */
function correlation(a: number[], b: number[]): number {
  const centred = (x: number[]) => x.map((value) => value - x.reduce((sum, value) => sum + value, 0) / x.length);
  const [x, y] = [centred(a), centred(b)];
  const dot = (p: number[], q: number[]) => p.reduce((sum, value, at) => sum + value * q[at]!, 0);
  return dot(x, y) / Math.sqrt(dot(x, x) * dot(y, y));
}
