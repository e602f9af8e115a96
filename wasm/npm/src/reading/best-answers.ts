import type { Answer } from '../types/answer.js';
import type { Hit } from '../types/search-result.js';
import type { PassageScore } from './pair-runner.js';

/**
 * The best answers of the passages that have been read, at most `count`, best first. Passages are chosen by the softmax
 * of their logits, as `best_answers` of the crate `dpr-core` does.
 *
 * @param scores - by the passages' positions, with holes where they have not been read
 */
export function bestAnswers(hits: readonly Hit[], scores: readonly (PassageScore | undefined)[], count: number): Answer[] {
  // Holes are passed over.
  const chosen = scores.flatMap((score, passage) => (score && !Number.isNaN(score.logit) ? [{ passage, ...score }] : []));
  chosen.sort((a, b) => b.logit - a.logit || a.passage - b.passage);
  const most = chosen[0]?.logit ?? 0;
  const sum = chosen.reduce((sum, { logit }) => sum + Math.exp(logit - most), 0);
  const answers: Answer[] = [];
  for (const { passage, logit, start, end, score } of chosen) {
    if (answers.length >= count) break;
    if (Number.isNaN(start)) continue;
    const hit = hits[passage]!;
    const selection = Math.exp(logit - most) / sum;
    answers.push({ text: hit.text.slice(start, end), hit, passage, start, end, confidence: selection * score, selection, score });
  }
  return answers;
}
