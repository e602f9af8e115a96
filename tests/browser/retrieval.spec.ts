import { expect, test } from './support/fixtures.ts';
import { nativeIds } from './support/native.ts';
import { squadQuestions } from './support/squad.ts';

const LIMIT = 100;
const K = 20;
const questions = squadQuestions(LIMIT);

for (const dtype of ['f32', 'q8'] as const) {
  test(`the first ${LIMIT} SQuAD questions find with ${dtype} weights what \`dpr search\` finds`, async ({ blank }) => {
    const found = await blank.evaluate(
      async ([dtype, texts, k]) => {
        const client = await window.dpr.SearchClient.connect('/', { device: 'cpu', dtype });
        const ids: string[][] = [];
        for (const text of texts) ids.push((await client.search(text, { k })).hits.map((hit) => hit.id));
        client.dispose();
        return ids;
      },
      [dtype, questions.map(({ text }) => text), K] as const,
    );
    const native = nativeIds(questions.map(({ text }) => text), K);
    const same = found.filter((ids, position) => ids.join() === native[position]!.join()).length;
    const sameFirst = found.filter((ids, position) => ids[0] === native[position]![0]).length;
    console.log(`browser ${dtype}: ${accuracies(found)}; native f32: ${accuracies(native)}`);
    console.log(`browser ${dtype}: the same ${K} ids in the same order for ${same} of ${LIMIT} questions, the same first for ${sameFirst}`);
    // 8 bits move scores by about 0.005, which swaps neighbours: its ranking is held to accuracy, not to order.
    if (dtype === 'f32') expect(same).toBeGreaterThanOrEqual(LIMIT - 1);
    for (const k of [1, 5, 20]) expect(accuracy(found, k)).toBeGreaterThanOrEqual(accuracy(native, k) - 0.02);
  });
}

function accuracies(ids: string[][]): string {
  return [1, 5, 20].map((k) => `top-${k} ${(accuracy(ids, k) * 100).toFixed(0)}%`).join(', ');
}

/** Share of questions whose own paragraph is among the first `k`. */
function accuracy(ids: string[][], k: number): number {
  return ids.filter((list, position) => list.slice(0, k).includes(questions[position]!.gold)).length / ids.length;
}
