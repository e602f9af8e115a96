import { expect, test } from './support/fixtures.ts';
import { cosine, decodeVector, goldenQuestions } from './support/vectors.ts';

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
