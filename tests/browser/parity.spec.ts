import { expect, test } from './support/fixtures.ts';
import { PACKAGE } from './support/gateway.ts';
import { cosine, decodeVector, goldenQuestions, smallModel } from './support/vectors.ts';

const golden = goldenQuestions();
const all = golden.questions.map((_, position) => position);
// Software WebGPU takes seconds a question: the shortest, the longest and two between.
const few = [0, 21, 42, golden.questions.length - 1];

const CASES = [
  { device: 'cpu', dtype: 'f32', positions: all, least: 0.9999 },
  { device: 'cpu', dtype: 'f16', positions: all, least: 0.9999 },
  { device: 'cpu', dtype: 'q8', positions: all, least: 0.995 },
  { device: 'webgpu', dtype: 'f32', positions: few, least: 0.9999 },
] as const;

for (const { device, dtype, positions, least } of CASES) {
  test(`vectors on ${device} with ${dtype} weights are those of transformers`, async ({ blank }) => {
    test.setTimeout(300_000);
    const encoded = await blank.evaluate(
      async ([device, dtype, questions]) => {
        const encoder = await window.dpr.QuestionEncoder.load('/v1/model', { device, dtype });
        const vectors: string[] = [];
        for (const question of questions) vectors.push(window.dpr.vectorToBase64(await encoder.encode(question)));
        const used = encoder.device;
        encoder.dispose();
        return { vectors, used };
      },
      [device, dtype, positions.map((position) => golden.questions[position]!)] as const,
    );
    expect(encoded.used).toBe(device);
    const cosines = positions.map((position, i) => cosine(golden.vectors[position]!, decodeVector(encoded.vectors[i]!)));
    console.log(`${device} ${dtype}: lowest cosine of ${cosines.length} questions ${Math.min(...cosines).toFixed(7)}`);
    expect(Math.min(...cosines)).toBeGreaterThanOrEqual(least);
  });
}

// What the starter model does not have: MPNet's bias on the attention scores, the CLS token, other widths.
for (const name of ['mpnet-tiny', 'dpr-tiny/question']) {
  for (const module of ['cpu', 'webgpu']) {
    test(`${name} on the ${module} module gives the vectors of transformers`, async ({ blank }) => {
      test.setTimeout(300_000);
      const { files, questions, vectors } = smallModel(name);
      const got = await blank.evaluate(
        async ([entry, files, questions]) => {
          const { default: init, QuestionEncoder } = await import(entry);
          await init();
          const encoder = await QuestionEncoder.load(
            ...files.map((file) => Uint8Array.from(atob(file), (character) => character.charCodeAt(0))),
          );
          const vectors: number[][] = [];
          for (const question of questions) vectors.push(Array.from((await encoder.encode(question)) as Float32Array));
          encoder.free();
          return vectors;
        },
        [`${PACKAGE}wasm/${module}/dpr_wasm.js`, files, questions] as const,
      );
      const cosines = vectors.map((vector, i) => cosine(vector, got[i]!));
      expect(cosines.length).toBe(questions.length);
      expect(Math.min(...cosines)).toBeGreaterThanOrEqual(0.9999);
    });
  }
}
