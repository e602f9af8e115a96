// Questions, passages and their vectors by Python's transformers (tests/fixtures/dpr-tiny).
import { readFileSync } from 'node:fs';

const golden = JSON.parse(readFileSync(new URL('../../fixtures/dpr-tiny/golden.json', import.meta.url), 'utf8'));

/** `[dim]` numbers from base64 of little-endian f32. */
export function vectorOf(base64) {
  const bytes = Buffer.from(base64, 'base64');
  return Float32Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(4 * at));
}

export const dot = (a, b) => a.reduce((sum, value, at) => sum + value * b[at], 0);
export const cosine = (a, b) => dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));

/** Asked with each device. The words are in no file of the templates. */
export const QUESTIONS = [4, 3].map((at) => ({
  text: golden.questions[at],
  vector: vectorOf(golden.question_vectors[at]),
}));

const passages = golden.passages.map(({ title, text }, at) => ({
  id: String(at),
  title,
  text,
  vector: vectorOf(golden.passage_vectors[at]),
}));

/** The `k` passages nearest to a vector, best first. */
export function nearest(vector, k) {
  const scored = passages.map(({ vector: passage, ...rest }) => ({ ...rest, score: dot(vector, passage) }));
  return scored.sort((a, b) => b.score - a.score).slice(0, k);
}
