import { SERVER } from './connection.js';
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
export async function describeCorpus(): Promise<void> {
  try {
    const answer = await fetch(new URL('v1/index', SERVER), { credentials: 'omit', referrerPolicy: 'no-referrer' });
    const index = (await answer.json()) as { count: number };
    byId('corpus').textContent = ` among ${count(index.count)} paragraphs`;
  } catch {
    // A nicety; the page says nothing about a number it does not know.
  }
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
