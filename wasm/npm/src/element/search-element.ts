import { SearchClient } from '../client/search-client.js';
import { typeahead, type Typeahead, type TypeaheadState } from '../client/typeahead.js';
import type { SearchClientLike } from '../types/client-like.js';
import type { ConnectOptions, PassageFilter } from '../types/options.js';
import type { Hit } from '../types/search-result.js';
import { add, fill, set } from './dom.js';
import { style } from './style.js';

/** The events of {@link DprSearchElement}; they bubble. */
export interface SearchElementEvents {
  /** A passage was chosen. Cancelled, the field keeps what was typed and the list stays open. */
  'dpr-select': CustomEvent<Hit>;
  /** There is something else to be shown. */
  'dpr-state': CustomEvent<TypeaheadState>;
}

// Where pages are rendered there are no elements.
const Base = (globalThis.HTMLElement ?? class {}) as typeof HTMLElement;

/**
 * `<dpr-search>`: a field with a list of the passages that are nearest to what is typed, after the combobox pattern of
 * ARIA 1.2. Keys: down and up go through the list, Enter takes a passage or searches at once, Escape closes the list
 * and then empties the field; in an empty field it is left to the page. The question stays in the field; the element's
 * value in a form is the id of the passage that was chosen.
 *
 * Attributes: `src` (the server's address, `/` if it is not given), `k`, `debounce` (milliseconds), `minlength`,
 * `label`, `placeholder`, `disabled`, `name`. Parts: `input`, `list`, `option`, `title`, `text`, `status`. Custom
 * properties: `--dpr-color`, `--dpr-background`, `--dpr-border`, `--dpr-accent`, `--dpr-radius`, `--dpr-padding`,
 * `--dpr-height`.
 *
 * @example
 * <script type="module">
 *   import 'dpr-web/element';
 *   document.querySelector('dpr-search').addEventListener('dpr-select', ({ detail }) => console.log(detail.id));
 * </script>
 * <dpr-search src="https://search.example.org/" k="5" label="Question"></dpr-search>
 */
export class DprSearchElement extends Base {
  static readonly formAssociated = true;
  static readonly observedAttributes = ['src', 'k', 'debounce', 'minlength', 'label', 'placeholder'];

  /** Options of the client that the element makes itself, as for keys and trusted types. */
  options: ConnectOptions = {};
  /** What the element says after a search, as for other languages. */
  found = (count: number): string => `${count} found`;
  readonly #root = this.attachShadow({ mode: 'open', delegatesFocus: true });
  readonly #internals = this.attachInternals();
  readonly #input = add(this.#root, 'input', {
    part: 'input',
    role: 'combobox',
    'aria-autocomplete': 'list',
    'aria-controls': 'list',
    autocomplete: 'off',
    dir: 'auto',
  });
  readonly #list = add(this.#root, 'ul', { part: 'list', id: 'list', role: 'listbox' });
  readonly #status = add(this.#root, 'p', { part: 'status', role: 'status' });
  #given: SearchClientLike | undefined;
  #own: SearchClientLike | undefined;
  #live: Typeahead | undefined;
  #hits: readonly Hit[] = [];
  #active!: number;
  /** The question for which Escape has closed the list: its answer may still be under way. */
  #closed: string | false | undefined;
  #value = '';
  #filter: PassageFilter | undefined;
  /** As it was when it was set: a page may change the object itself, and set it again. */
  #filterJson: string | undefined;

  constructor() {
    super();
    style(this.#root);
    this.#open(false);
    this.#input.onfocus = () => void this.client.preload();
    this.#input.onblur = () => this.#open(false);
    this.#input.oninput = () => this.#typed();
    this.#input.onkeydown = (event) => this.#key(event);
    // The field keeps the focus.
    this.#list.onpointerdown = (event) => event.preventDefault();
    this.#list.onclick = ({ target }) => {
      this.#choose([...this.#list.children].indexOf((target as Element).closest('li')!));
    };
  }

  /** The client: one of the page's own, or the one that the element makes of `src` and disposes when it goes. */
  get client(): SearchClientLike {
    return this.#given ?? (this.#own ??= SearchClient.create(this.getAttribute('src') ?? '/', this.options));
  }

  set client(client: SearchClientLike) {
    this.#end();
    this.#given = client;
  }

  /**
   * What searches may find. Another one gives up what is under way, and counts from the next key on. One that is equal,
   * as a framework sets it each time it renders, gives up nothing.
   */
  get filter(): PassageFilter | undefined {
    return this.#filter;
  }

  set filter(filter: PassageFilter | undefined) {
    const json = JSON.stringify(filter);
    if (json !== this.#filterJson) this.#end(false);
    this.#filterJson = json;
    this.#filter = filter;
  }

  /** What is typed. */
  get question(): string {
    return this.#input.value;
  }

  set question(text: string) {
    this.#input.value = text;
    this.#typed();
  }

  /** The id of the passage that was chosen, or nothing. */
  get value(): string {
    return this.#value;
  }

  connectedCallback(): void {
    const label = this.getAttribute('label') ?? this.#internals.labels[0]?.textContent ?? 'Search';
    set(this.#list, { 'aria-label': label });
    set(this.#input, { 'aria-label': label, placeholder: this.getAttribute('placeholder') ?? '' });
  }

  disconnectedCallback(): void {
    // Not when it is only moved.
    setTimeout(() => this.isConnected || this.#end());
  }

  attributeChangedCallback(name: string, old: string | null, value: string | null): void {
    this.connectedCallback();
    // `label` and `placeholder`, and what is set to what it was, change no search.
    if (old !== value && !/a/.test(name)) this.#end(name === 'src');
  }

  formDisabledCallback(isDisabled: boolean): void {
    this.#input.disabled = isDisabled;
  }

  formResetCallback(): void {
    this.question = '';
  }

  /** Gives up what is under way, and the client if it is the element's own. */
  #end(withClient = true): void {
    this.#live = void this.#live?.dispose();
    if (withClient) this.#own = void this.#own?.dispose();
  }

  #typed(): void {
    this.#take((this.#closed = ''));
    if (!this.#live) {
      this.#live = typeahead(this.client, {
        k: +(this.getAttribute('k') ?? 10),
        debounce: +(this.getAttribute('debounce') ?? 100),
        minLength: +(this.getAttribute('minlength') ?? 1),
        filter: this.#filter,
      });
      this.#live.subscribe((state) => this.#show(state));
    }
    this.#live.input(this.question);
  }

  #show(state: TypeaheadState): void {
    const { status, result, error } = state;
    const hits = result?.hits ?? [];
    if (status !== 'waiting') {
      this.#status.textContent = error ? (error as Error).message : status === 'done' ? this.found(hits.length) : '';
    }
    if (hits !== this.#hits) {
      this.#hits = hits;
      fill(this.#list, hits);
      this.#mark(-1);
    }
    this.#open(!!(hits[0] && this.#root.activeElement && !this.#closed));
    this.#tell('dpr-state', state);
  }

  #key(event: KeyboardEvent): void {
    const { key } = event;
    const count = this.#hits.length + 1;
    const step = ({ ArrowDown: 1, ArrowUp: -1 } as Record<string, number>)[key];
    const closed = key === 'Escape' && this.question;
    // An input method has keys of its own; Escape in an empty field may close a dialog around it.
    if (event.isComposing || !(step || key === 'Enter' || closed)) return;
    event.preventDefault();
    this.#closed = closed;
    if (step) {
      this.#open(count > 1);
      // Around the list, by way of the field.
      this.#mark(((this.#active + 1 + step + count) % count) - 1);
    } else if (!closed) {
      this.#choose(this.#active);
    } else if (this.#list.hidden) {
      this.question = '';
    } else {
      this.#open(false);
    }
  }

  #open(isOpen: boolean): void {
    this.#list.hidden = !isOpen;
    set(this.#input, { 'aria-expanded': isOpen });
    if (!isOpen) this.#mark(-1);
  }

  #mark(active: number): void {
    const options = this.#list.children;
    const marked = options[active];
    this.#active = active;
    set(this.#input, { 'aria-activedescendant': marked?.id ?? '' });
    for (const option of options) set(option, { 'aria-selected': option === marked });
    marked?.scrollIntoView({ block: 'nearest' });
  }

  /** Takes a passage; without one, searches at once. */
  #choose(position: number): void {
    const hit = this.#hits[position];
    if (!hit) this.#live?.flush();
    else if (this.#tell('dpr-select', hit)) {
      // Typing begins anew.
      this.#end(false);
      this.#input.value = hit.title || hit.text;
      this.#open(false);
      this.#take(hit.id);
    }
  }

  #take(value: string): void {
    this.#value = value;
    this.#internals.setFormValue(value || null);
  }

  #tell<K extends keyof SearchElementEvents>(type: K, detail: SearchElementEvents[K]['detail']): boolean {
    return this.dispatchEvent(new CustomEvent(type, { detail, cancelable: true, bubbles: true }));
  }
}
