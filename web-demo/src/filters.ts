import type { Hit, MetadataValue, PassageFilter } from 'dpr-web';
import { byId, make } from './dom.js';

/** Values longer than this are texts rather than something to filter by. */
const LONGEST = 40;

interface Chosen {
  /** What the chip says. */
  label: string;
  title?: string;
  field?: string;
  value?: MetadataValue;
}

/** The filters in use, as chips that remove them, and the buttons of a passage that add one. */
export class Filters {
  readonly #group = byId('filters');
  readonly #list = byId('filters-list');
  readonly #onChange: () => void;
  #chosen: Chosen[] = [];
  #value: PassageFilter | undefined;
  #isOffered = true;

  /** @param onChange - called when a filter was added or removed */
  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  /** The filter of the next search, one object until it changes; `undefined` for none. */
  get value(): PassageFilter | undefined {
    return this.#value;
  }

  /** Whether searches take filters. Where they do not, there are no buttons, and the chips go without a search. */
  set isOffered(value: boolean) {
    this.#isOffered = value;
    byId('filters-none').hidden = value;
    for (const buttons of document.querySelectorAll<HTMLElement>('.result-only')) buttons.hidden = !value;
    if (!value) this.#set([]);
  }

  /** Buttons that leave only passages like this one: of its title, and with each of its metadata. */
  buttons({ title, metadata = {} }: Hit): HTMLElement | undefined {
    if (!this.#isOffered) return undefined;
    const offered: Chosen[] = title ? [{ label: title, title }] : [];
    for (const [field, value] of Object.entries(metadata)) {
      if (String(value).length <= LONGEST) offered.push({ label: `${field}: ${value}`, field, value });
    }
    const buttons = offered.filter((one) => !this.#has(one)).map((one) => {
      const button = make('button', '', 'Only ', make('bdi', '', one.label));
      button.type = 'button';
      button.addEventListener('click', () => {
        this.#change([...this.#chosen, one]);
        // The passage with this button goes; its chip takes the focus.
        this.#list.querySelector<HTMLElement>('li:last-child button')?.focus();
      });
      return button;
    });
    return buttons.length > 0 ? make('div', 'result-only', ...buttons) : undefined;
  }

  #has({ label }: Chosen): boolean {
    return this.#chosen.some((one) => one.label === label);
  }

  #change(chosen: Chosen[]): void {
    this.#set(chosen);
    this.#onChange();
  }

  #set(chosen: Chosen[]): void {
    this.#chosen = chosen;
    this.#value = filterOf(chosen);
    this.#group.hidden = chosen.length === 0;
    this.#list.replaceChildren(
      ...chosen.map((one) => {
        const chip = make('button', 'chip', make('bdi', '', one.label));
        chip.type = 'button';
        chip.setAttribute('aria-label', `Remove the filter ${one.label}`);
        chip.addEventListener('click', () => {
          this.#change(this.#chosen.filter((other) => other !== one));
          // The chip is gone, and the focus with it.
          (this.#list.querySelector('button') ?? byId('question')).focus();
        });
        return make('li', '', chip);
      }),
    );
  }
}

/** Titles are alternatives; all conditions have to hold. */
function filterOf(chosen: readonly Chosen[]): PassageFilter | undefined {
  if (chosen.length === 0) return undefined;
  const titles = chosen.flatMap(({ title }) => title ?? []);
  const conditions = chosen.flatMap(({ field, value }) => (field === undefined ? [] : [{ field, eq: value! }]));
  return {
    ...(titles.length > 0 && { titles }),
    ...(conditions.length > 0 && { metadata: conditions.length === 1 ? conditions[0]! : { and: conditions } }),
  };
}
