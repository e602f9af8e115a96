import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { repository } from './paths.ts';

/** A question and the id of the paragraph it was asked about: `{article}-{paragraph}`. */
export interface SquadQuestion {
  text: string;
  gold: string;
}

/** The first questions of SQuAD dev, in the file's order. */
export function squadQuestions(limit: number): SquadQuestion[] {
  const file = gunzipSync(readFileSync(repository('web-demo/corpus/squad-dev-v1.1.json.gz'))).toString('utf8');
  const { data } = JSON.parse(file) as { data: { paragraphs: { qas: { question: string }[] }[] }[] };
  return data
    .flatMap(({ paragraphs }, article) =>
      paragraphs.flatMap(({ qas }, paragraph) =>
        qas.map(({ question }) => ({ text: question, gold: `${article}-${paragraph}` })),
      ),
    )
    .slice(0, limit);
}
