import type { Hit, SearchTimings } from 'dpr-web';
import { byId, make } from './dom.js';
import { fixed, milliseconds } from './format.js';

/** The list of passages, with its keys: arrows move, Enter opens, Escape goes back to the question. */
export class ResultList {
  readonly #list = byId('results');
  readonly #empty = byId('empty');
  readonly #heading = byId('found-heading');
  readonly #question: HTMLInputElement;
  readonly #extra: (hit: Hit) => HTMLElement | undefined;

  /** @param extra - makes what stands below a passage, or nothing */
  constructor(question: HTMLInputElement, extra: (hit: Hit) => HTMLElement | undefined) {
    this.#question = question;
    this.#extra = extra;
    this.#list.addEventListener('keydown', (event) => this.#onKey(event));
    this.#list.addEventListener('click', (event) => {
      const result = (event.target as Element).closest<HTMLElement>('.result');
      if ((event.target as Element).closest('.result-only')) return;
      // Selecting text in a passage is no wish to fold it.
      if (result && getSelection()?.isCollapsed !== false) toggle(result);
    });
  }

  /** Greys the old passages while new ones are searched. */
  set busy(value: boolean) {
    this.#list.setAttribute('aria-busy', String(value));
  }

  show(hits: Hit[], timings: SearchTimings, hasServerTime: boolean): void {
    const best = hits[0]?.score ?? 0;
    this.#list.replaceChildren(...hits.map((hit, position) => card(hit, position, best, this.#extra(hit))));
    this.#empty.hidden = hits.length > 0;
    if (hits.length === 0) this.#empty.textContent = 'No passage was found.';
    this.#heading.textContent = hits.length === 1 ? '1 passage found' : `${hits.length} passages found`;
    byId('time-encode').textContent = milliseconds(timings.encodeMs);
    byId('time-search').textContent = milliseconds(timings.searchMs);
    byId('time-server').textContent = hasServerTime ? milliseconds(timings.tookMs) : '–';
  }

  /** On a small screen the passages are below the fold: brings them up, and lets a touch keyboard go. */
  reveal(): void {
    if (this.#list.getBoundingClientRect().top < innerHeight * 0.7) return;
    if (matchMedia('(hover: none)').matches) this.#question.blur();
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.#list.scrollIntoView({ block: 'start', behavior: calm ? 'auto' : 'smooth' });
  }

  focusFirst(): void {
    this.#buttons()[0]?.focus();
  }

  #buttons(): HTMLButtonElement[] {
    return [...this.#list.querySelectorAll<HTMLButtonElement>('h3 button')];
  }

  #onKey(event: KeyboardEvent): void {
    const buttons = this.#buttons();
    // The focus may be on another button of the passage.
    const result = document.activeElement?.closest('.result');
    const current = buttons.findIndex((button) => button.closest('.result') === result);
    if (event.key === 'ArrowDown') buttons[current + 1]?.focus();
    else if (event.key === 'ArrowUp') (buttons[current - 1] ?? this.#question).focus();
    else if (event.key === 'Home') buttons[0]?.focus();
    else if (event.key === 'End') buttons.at(-1)?.focus();
    else if (event.key === 'Escape') this.#question.focus();
    else return;
    event.preventDefault();
  }
}

function card({ id, title, text, score }: Hit, position: number, best: number, extra: HTMLElement | undefined): HTMLLIElement {
  const button = make('button', '', title || 'Untitled');
  button.type = 'button';
  // A corpus may be of any language.
  button.dir = 'auto';
  button.setAttribute('aria-expanded', 'false');
  button.setAttribute('aria-controls', `passage-${position}`);
  const bar = make('i');
  bar.style.setProperty('--share', `${Math.max(0, Math.min(1, best > 0 ? score / best : 0)) * 100}%`);
  bar.ariaHidden = 'true';
  const scoreLabel = make('span', 'result-score', bar, fixed(score, 3));
  scoreLabel.title = 'Similarity of question and passage (inner product)';
  const passage = make('p', 'result-text', text);
  passage.id = `passage-${position}`;
  passage.dir = 'auto';
  const item = make(
    'li',
    'result',
    make('div', 'result-head', make('span', 'result-rank', String(position + 1)), make('h3', '', button), scoreLabel),
    passage,
    ...(extra ? [extra] : []),
  );
  item.dataset['id'] = id;
  return item;
}

function toggle(result: HTMLElement): void {
  const open = result.dataset['open'] !== 'true';
  result.dataset['open'] = String(open);
  result.querySelector('h3 button')!.setAttribute('aria-expanded', String(open));
}
