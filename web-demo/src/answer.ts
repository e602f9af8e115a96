import type { Answer, Hit, ModelManifest, SearchClient } from 'dpr-web';
import { DprWebError } from 'dpr-web';
import type { Connection } from './connection.js';
import { byId, make } from './dom.js';
import { fixed } from './format.js';

/**
 * Answers in the page: two switches, which are there where the server offers a reader, the answer of each passage
 * marked in it, and the best one in words. Reads the passages that a search has found, so it sends nothing more.
 */
export class Answers {
  readonly #list = byId('results');
  readonly #marks = toggle('Mark answers, read in this page');
  readonly #ranks = toggle('Re-rank by them');
  readonly #best = make('p', 'notice');
  /** Why the passages of the search are not read; `undefined` where they may be. */
  #obstacle: string | undefined;

  constructor() {
    const controls = document.querySelector('.controls')!;
    for (const { label } of [this.#marks, this.#ranks]) controls.insertBefore(label, controls.lastElementChild);
    this.#best.setAttribute('role', 'status');
    this.#best.hidden = true;
    this.#list.before(this.#best);
  }

  /** Shows the switches where this model comes with a reader. */
  offer(model: ModelManifest): void {
    for (const { label } of [this.#marks, this.#ranks]) label.hidden = !model.reader;
  }

  /** Takes away what is said of the passages that were read before. */
  clear(): void {
    this.#best.hidden = true;
  }

  /**
   * Before a private search, loads the reader where answers are wanted: a download after the search would tell the
   * server that it has succeeded. Never rejects.
   */
  async prepare(connection: Connection, signal: AbortSignal): Promise<void> {
    this.#obstacle = undefined;
    if (connection.privacy === 'plain') return;
    this.#obstacle = 'The reader is loaded before a private search: search again.';
    if (!this.#isWanted) return;
    this.#say('Loading the reader…');
    signal.addEventListener('abort', () => this.clear(), { once: true });
    try {
      await connection.loadReader(signal);
      if (!signal.aborted) this.#obstacle = undefined;
    } catch (error) {
      if (!signal.aborted) this.#obstacle = words(error);
    }
    if (!signal.aborted) this.clear();
  }

  /** Reads the passages of the list, best first, and marks the answers as they come. Never rejects. */
  async show(client: SearchClient, question: string, hits: Hit[], signal: AbortSignal): Promise<void> {
    this.clear();
    if (!this.#isWanted) return;
    if (this.#obstacle !== undefined) {
      this.#say(`No answers: ${this.#obstacle}`);
      return;
    }
    const ranks = this.#ranks.input.checked;
    this.#say('Reading the passages…');
    // Cleared at once: the reader notices later, and may then overwrite the notice of a newer search.
    signal.addEventListener('abort', () => this.clear(), { once: true });
    try {
      const { answers } = await client.answer(question, {
        hits,
        count: hits.length,
        signal,
        onAnswer: ({ answers, read, total }) => {
          const [best] = answers;
          if (best && !signal.aborted) this.#say(`${describe(best)} ${read} of ${total} passages read.`);
        },
      });
      if (signal.aborted) return;
      for (const answer of answers) this.#mark(answer);
      const [best] = answers;
      this.#say(best ? describe(best) : 'No passage has a text to answer from.');
      if (!ranks) return;
      // Keys and folds stay with their passages; a passage that moves loses the focus.
      const focused = document.activeElement as HTMLElement | null;
      this.#list.prepend(...answers.map(({ hit }) => this.#item(hit)).filter((item) => item !== null));
      if (this.#list.contains(focused)) focused?.focus({ preventScroll: true });
    } catch (error) {
      if (signal.aborted) return;
      this.#say(`No answers: ${words(error)}`);
    }
  }

  get #isWanted(): boolean {
    return !this.#marks.label.hidden && (this.#marks.input.checked || this.#ranks.input.checked);
  }

  #mark({ hit, start, end, confidence }: Answer): void {
    const passage = this.#item(hit)?.querySelector('.result-text');
    if (!passage) return;
    const span = make('mark', '', hit.text.slice(start, end));
    span.title = `Confidence ${percent(confidence)}`;
    passage.replaceChildren(hit.text.slice(0, start), span, hit.text.slice(end));
  }

  #item({ id }: Hit): HTMLElement | null {
    return this.#list.querySelector(`.result[data-id="${CSS.escape(id)}"]`);
  }

  #say(text: string): void {
    this.#best.textContent = text;
    this.#best.hidden = false;
  }
}

function describe({ text, confidence, hit }: Answer): string {
  return `Answer: “${text}”, confidence ${percent(confidence)}, in ${hit.title || 'a passage without a title'}.`;
}

function words(error: unknown): string {
  return error instanceof DprWebError ? `${error.message}. ${error.fix}` : String(error);
}

function percent(value: number): string {
  return `${fixed(100 * value, value < 0.1 ? 1 : 0)} %`;
}

function toggle(text: string): { label: HTMLLabelElement; input: HTMLInputElement } {
  const input = make('input');
  input.type = 'checkbox';
  const label = make('label', 'picker', make('span', '', text), input);
  label.hidden = true;
  return { label, input };
}
