import { readFileSync } from 'node:fs';
import { expect, test } from './support/fixtures.ts';
import { PACKAGE } from './support/gateway.ts';
import { repository } from './support/paths.ts';

/** The models of `tests/python/cross_encoders.py`, and which directory holds the tokenizer of each. */
const MODELS = [
  ['bert', 'bert'],
  ['xlm-roberta', 'xlm-roberta'],
  ['electra', 'bert'],
  ['distilbert', 'bert'],
  ['mpnet', 'xlm-roberta'],
] as const;

const fixture = (path: string) => readFileSync(repository(`tests/fixtures/cross-encoders/${path}`));

/** Questions, titles and texts: many longer than the limit, some without a title, some in Korean. */
const PAIRS = JSON.parse(fixture('pairs.json').toString('utf8')) as [string, string, string][];

for (const [name, tokenizer] of MODELS) {
  for (const module of ['cpu', 'webgpu']) {
    test(`the cross-encoder ${name} on the ${module} module gives the scores of transformers`, async ({ blank }) => {
      test.setTimeout(600_000);
      const golden = JSON.parse(fixture(`${name}/golden.json`).toString('utf8')) as { max_tokens: number; scores: number[] };
      const files = [`${name}/config.json`, `${tokenizer}/tokenizer.json`, `${name}/model.safetensors`].map((path) =>
        fixture(path).toString('base64'),
      );
      const got = await blank.evaluate(
        async ([entry, files, maxTokens, pairs]) => {
          const { default: init, CrossEncoder } = await import(entry);
          await init();
          const bytes = files.map((file) => Uint8Array.from(atob(file), (character) => character.charCodeAt(0)));
          const encoder = await CrossEncoder.load(...bytes, maxTokens);
          const scores: number[] = [];
          for (const [question, title, text] of pairs) {
            scores.push(...((await encoder.score(question, [title, title], [text, text])) as Float32Array));
          }
          const refused: string[] = [];
          for (const [question, titles] of [
            [' ', ['']],
            ['a question', []],
          ] as const) {
            await encoder.score(question, titles, ['text']).catch((error: Error) => refused.push(error.message));
          }
          const limit = encoder.maxTokens as number;
          encoder.free();
          return { scores, refused, limit };
        },
        [`${PACKAGE}wasm/${module}/dpr_wasm.js`, files, golden.max_tokens, PAIRS] as const,
      );
      expect(golden.scores.length).toBe(PAIRS.length);
      expect(got.scores.length).toBe(2 * PAIRS.length);
      expect(got.limit).toBe(golden.max_tokens);
      const far = got.scores.map((score, at) => Math.abs(score - golden.scores[at >> 1]!));
      console.log(`${name} on ${module}: largest difference of ${PAIRS.length} scores ${Math.max(...far).toExponential(1)}`);
      expect(Math.max(...far)).toBeLessThanOrEqual(1e-4);
      expect(got.refused).toEqual([expect.stringContaining('empty'), expect.stringContaining('0 titles and 1 texts')]);
    });
  }
}
