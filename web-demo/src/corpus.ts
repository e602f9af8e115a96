import type { Connection } from './connection.js';
import { byId, make } from './dom.js';
import { count } from './format.js';

const EXAMPLES = [
  'who won super bowl 50',
  'why is pure oxygen dangerous for divers',
  'how did the plague travel to Europe',
  'what made oil so expensive in the seventies',
  'how do plants turn light into sugar',
];

/** Says how many passages there are. */
export async function describeCorpus({ index }: Connection): Promise<void> {
  const described = await index;
  // Without a description of the index the page shows no number.
  if (described) byId('corpus').textContent = ` among ${count(described.count)} paragraphs`;
}

/** Offers questions that the corpus answers. */
export function offerExamples(ask: (question: string) => void): void {
  byId('examples').append(
    ...EXAMPLES.map((text) => {
      const button = make('button', '', text);
      button.type = 'button';
      button.addEventListener('click', () => ask(text));
      return button;
    }),
  );
}
