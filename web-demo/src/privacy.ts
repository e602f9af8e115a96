import { type Privacy, PrivacyError, type PrivacyMode, type SearchResult } from 'dpr-web';
import type { Connection } from './connection.js';
import { byId, make } from './dom.js';
import { count } from './format.js';
import { describeMode } from './mode-texts.js';
import { recall, remember } from './stored.js';

const NAMES: Record<Privacy, string> = {
  plain: 'Plain',
  blurred: 'Blurred',
  local: 'Nothing: search here',
  bucket: 'Buckets and decoys',
  encrypted: 'Encrypted (experimental)',
};

const MODES = ['plain', 'blurred', 'local', 'bucket', 'encrypted'] as const satisfies readonly Privacy[];

/** The key under which the browser stores the chosen mode. */
const STORED = 'privacy';

/** What a choice of a mode changes in the rest of the page. */
export interface PrivacyView {
  /** Called when another mode was chosen: ends the searches under way in the previous one. */
  left(): void;
  /** Called when searches begin to use this mode. */
  entered(mode: Privacy): void;
}

/** The select of how much the server is shown of questions, and what it saw of the last one. */
export class PrivacyChoice {
  readonly #connection: Connection;
  readonly #view: PrivacyView;
  readonly #select = byId<HTMLSelectElement>('privacy');
  readonly #saw = byId('privacy-saw');
  /** The modes that the server offers; `undefined` until it was asked. */
  #modes: PrivacyMode[] | undefined;
  #asking: Promise<PrivacyMode[]> | undefined;
  /** `true` if the server takes vectors; `undefined` until it is known. */
  #takesPlain: boolean | undefined;

  constructor(connection: Connection, view: PrivacyView) {
    this.#connection = connection;
    this.#view = view;
    const chosen = recall(STORED, MODES);
    if (chosen !== 'plain') this.#select.append(optionOf(chosen));
    this.#select.value = chosen;
    this.#enter(chosen);
    connection.permitted = () => this.#permit();
    // What a server offers is asked for when somebody looks, and before the first search that needs to know it.
    const options = byId<HTMLDetailsElement>('options');
    options.addEventListener('toggle', () => {
      if (options.open) void this.#offer();
    });
    this.#select.addEventListener('change', () => {
      const mode = this.#select.value as Privacy;
      remember(STORED, mode);
      view.left();
      this.#enter(mode);
    });
    void connection.index.then((index) => {
      this.#takesPlain ??= index?.plain;
      this.#showCompare();
      // A server that takes no vectors: the page has to know how else it is searched.
      if (this.#takesPlain === false) void this.#offer();
    });
  }

  /** Takes note that the server has refused a plain question: it answers private ones alone from now on. */
  refusedPlain(): void {
    this.#takesPlain = false;
    this.#modes = undefined;
    this.#showCompare();
  }

  /** Tells what the server saw of a search. */
  show({ privacy, requests }: SearchResult): void {
    if (privacy.mode === 'bucket') {
      const now = requests.length === 0 ? 'All of them were kept: no request was made.' : `${count(requests.length)} were fetched now, in the order of their numbers, and are listed below.`;
      this.#saw.textContent = `The host saw ${privacy.sees}. ${now}`;
      byId('sent-link').hidden = requests.length === 0;
      return;
    }
    if (requests.length === 0) {
      byId('sent-link').hidden = true;
      this.#saw.textContent = 'Nobody saw anything of the search: no request was made, 0 bytes were sent.';
      return;
    }
    const up = requests.reduce((sum, { bytes }) => sum + bytes, 0);
    const down = this.#modes?.find(({ mode }) => mode === privacy.mode)?.downBytes;
    // What has changed since the tables were made is not of a length that is known before.
    const changes = requests.some(({ url }) => url.includes('/encrypted/delta/')) ? ', and what has changed in the index' : '';
    const answered = down === undefined ? '' : `, ${count(down)} bytes came back${changes}`;
    this.#saw.textContent = `The server saw ${privacy.sees}. ${requests.length === 1 ? 'One request' : `${requests.length} requests`}: ${count(up)} bytes were sent${answered}.`;
  }

  /**
   * Waits until it is known that the server offers the mode that is chosen. Rejects where it does not, or cannot be
   * asked: nothing of the question is sent then. There is no way down to a plainer mode.
   */
  async #permit(): Promise<void> {
    const { index } = this.#connection;
    await index;
    if (this.#connection.privacy === 'plain' && this.#takesPlain) return;
    const isChosen = ({ mode }: PrivacyMode) => mode === this.#connection.privacy;
    // Asked anew by each search in a mode that was not offered: tables that are out of date are offered again later.
    if (!this.#modes?.some(isChosen)) this.#modes = undefined;
    const modes = await this.#ask();
    if (modes.some(isChosen)) return;
    throw new PrivacyError('not_offered', `this server does not offer the mode “${NAMES[this.#connection.privacy]}”`, 'Nothing was sent. Choose another mode at “Server sees”, in the options.');
  }

  /** Asks the server for its modes, where they are not known. */
  #ask(): Promise<PrivacyMode[]> {
    if (this.#modes) return Promise.resolve(this.#modes);
    this.#asking ??= this.#connection
      .modes()
      .then((modes) => this.#show(modes))
      .finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  /** Shows what the server offers, or why that is not known. */
  async #offer(): Promise<void> {
    await this.#ask().catch((error: Error) => {
      this.#saw.textContent = `What the server offers could not be asked for: ${error.message}`;
    });
  }

  #show(modes: PrivacyMode[]): PrivacyMode[] {
    this.#modes = modes;
    const offered = modes.map(({ mode }) => mode);
    this.#takesPlain = offered.includes('plain');
    // A server that takes no vectors: the first of its modes, all of which show it less.
    if (this.#connection.privacy === 'plain' && !this.#takesPlain && offered[0] !== undefined) this.#enter(offered[0]);
    const { privacy } = this.#connection;
    const options = offered.map((mode) => optionOf(mode));
    // The mode stays the one that was chosen: searches in it are refused.
    if (!offered.includes(privacy)) options.push(optionOf(privacy, ', not offered here'));
    this.#select.replaceChildren(...options);
    this.#select.value = privacy;
    this.#saw.textContent = offered.some((mode) => mode !== 'plain') ? this.#seen(privacy) : 'This server offers no private modes.';
    this.#showCompare();
    return modes;
  }

  #enter(mode: Privacy): void {
    this.#connection.privacy = mode;
    describeMode(mode);
    this.#saw.textContent = this.#seen(mode);
    this.#showCompare();
    this.#view.entered(mode);
  }

  /** What the server sees in a mode, where it differs from what the page says anyway. */
  #seen(mode: Privacy): string {
    return (mode !== 'plain' && this.#modes?.find((one) => one.mode === mode)?.sees) || '';
  }

  /** A comparison sends vectors: it is there where the server takes them and they are what is chosen. */
  #showCompare(): void {
    byId('compare').hidden = this.#connection.privacy !== 'plain' || !this.#takesPlain;
  }
}

function optionOf(mode: Privacy, note = ''): HTMLOptionElement {
  return Object.assign(make('option', '', NAMES[mode] + note), { value: mode });
}
