import { expect, test } from './support/fixtures.ts';
import { PACKAGE } from './support/gateway.ts';
import { cosine, decodeVector, golden, smallModel } from './support/vectors.ts';

const { texts, vectors } = golden();

const CASES = [
  { device: 'cpu', dtype: 'f32', least: 0.9999 },
  { device: 'cpu', dtype: 'f16', least: 0.9999 },
  { device: 'cpu', dtype: 'q8', least: 0.995 },
  { device: 'webgpu', dtype: 'f32', least: 0.9999 },
] as const;

for (const { device, dtype, least } of CASES) {
  test(`vectors on ${device} with ${dtype} weights are those of transformers`, async ({ blank }) => {
    test.setTimeout(1_800_000); // software WebGPU takes a second or two a text
    const encoded = await blank.evaluate(
      async ([device, dtype, texts]) => {
        const encoder = await window.dpr.QuestionEncoder.load('/v1/model', { device, dtype });
        const vectors: string[] = [];
        for (const text of texts) vectors.push(window.dpr.vectorToBase64(await encoder.encode(text)));
        const used = encoder.device;
        encoder.dispose();
        return { vectors, used };
      },
      [device, dtype, texts] as const,
    );
    expect(encoded.used).toBe(device);
    const cosines = vectors.map((vector, i) => cosine(vector, decodeVector(encoded.vectors[i]!)));
    console.log(`${device} ${dtype}: lowest cosine of ${cosines.length} texts ${Math.min(...cosines).toFixed(7)}`);
    expect(Math.min(...cosines)).toBeGreaterThanOrEqual(least);
  });
}

// What the starter model does not have: MPNet's bias on the attention scores, the CLS token, other widths, other tokenizers,
// rotary positions, gated layers and local attention.
const SMALL_MODELS = [
  'mpnet-tiny',
  'dpr-tiny/question',
  'families/distilbert',
  'families/xlm-roberta',
  'families/roberta',
  'families/modernbert',
  'families/nomic-bert',
];

for (const name of SMALL_MODELS) {
  for (const module of ['cpu', 'webgpu']) {
    test(`${name} on the ${module} module gives the vectors of transformers`, async ({ blank }) => {
      test.setTimeout(300_000);
      const { files, texts, vectors } = smallModel(name);
      const got = await blank.evaluate(
        async ([entry, files, texts]) => {
          const { default: init, QuestionEncoder } = await import(entry);
          await init();
          const encoder = await QuestionEncoder.load(
            ...files.map((file) => Uint8Array.from(atob(file), (character) => character.charCodeAt(0))),
          );
          const vectors: number[][] = [];
          for (const text of texts) vectors.push(Array.from((await encoder.encode(text)) as Float32Array));
          encoder.free();
          return vectors;
        },
        [`${PACKAGE}wasm/${module}/dpr_wasm.js`, files, texts] as const,
      );
      const cosines = vectors.map((vector, i) => cosine(vector, got[i]!));
      expect(cosines.length).toBe(texts.length);
      expect(Math.min(...cosines)).toBeGreaterThanOrEqual(0.9999);
    });
  }
}
