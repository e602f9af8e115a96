import { byId } from './dom.js';
import { recall, remember } from './stored.js';

const THEMES = ['auto', 'light', 'dark'] as const;
const DIRECTIONS = ['ltr', 'rtl'] as const;

/** The choices that stay between visits, applied at once and with each change. */
export class Options {
  readonly #shortcut = byId<HTMLInputElement>('shortcut');
  readonly #typing = byId<HTMLInputElement>('typing');

  /** @param onTyping - called when searching while typing is switched on or off */
  constructor(onTyping: () => void) {
    select('theme', THEMES, (theme) => {
      document.documentElement.dataset['theme'] = theme;
    });
    select('direction', DIRECTIONS, (direction) => {
      document.documentElement.dir = direction;
    });
    // Speech input may press keys that nobody meant: the shortcut of one key can be switched off.
    box(this.#shortcut, 'shortcut', ['on', 'off']);
    box(this.#typing, 'typing', ['off', 'on']);
    const told = () => {
      byId('not-typed').hidden = this.isTyping;
    };
    told();
    this.#typing.addEventListener('change', () => {
      told();
      onTyping();
    });
  }

  /** Whether a slash, pressed anywhere, goes to the question. */
  get hasShortcut(): boolean {
    return this.#shortcut.checked;
  }

  /** Whether each pause while typing is a search. */
  get isTyping(): boolean {
    return this.#typing.checked;
  }
}

function select<T extends string>(id: string, known: readonly [T, ...T[]], apply: (value: T) => void): void {
  const list = byId<HTMLSelectElement>(id);
  list.value = recall(id, known);
  apply(list.value as T);
  list.addEventListener('change', () => {
    apply(list.value as T);
    remember(id, list.value);
  });
}

function box(input: HTMLInputElement, name: string, known: readonly ['on' | 'off', 'on' | 'off']): void {
  input.checked = recall(name, known) === 'on';
  input.addEventListener('change', () => remember(name, input.checked ? 'on' : 'off'));
}
