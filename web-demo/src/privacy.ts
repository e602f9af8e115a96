import type { Privacy, PrivacyMode, SearchResult } from 'dpr-web';
import type { Connection } from './connection.js';
import { byId, make } from './dom.js';
import { count } from './format.js';
import { describeMode } from './mode-texts.js';

const NAMES: Record<Privacy, string> = {
  plain: 'Plain',
  blurred: 'Blurred',
  local: 'Nothing: search here',
  bucket: 'Buckets and decoys',
  encrypted: 'Encrypted (experimental)',
};

/** The select of how much the server is shown of questions, and what it saw of the last one. */
export class PrivacyChoice {
  readonly #connection: Connection;
  readonly #select = byId<HTMLSelectElement>('privacy');
  readonly #saw = byId('privacy-saw');
  #modes: PrivacyMode[] = [];
  /** Whether the server was asked what it offers: again at the next opening where that failed. */
  #isAsked = false;

  /** @param onChange - called when another mode is chosen: what is under way is of the one before */
  constructor(connection: Connection, onChange: () => void) {
    this.#connection = connection;
    // What a server offers is asked for when somebody looks.
    const options = byId<HTMLDetailsElement>('options');
    options.addEventListener('toggle', () => {
      if (!options.open || this.#isAsked) return;
      this.#isAsked = true;
      void this.#offer();
    });
    this.#select.addEventListener('change', () => {
      connection.privacy = this.#select.value as Privacy;
      const isPlain = connection.privacy === 'plain';
      // It sends vectors.
      byId('compare').hidden = !isPlain;
      describeMode(connection.privacy);
      this.#saw.textContent = this.#modes.find(({ mode }) => mode === connection.privacy)?.sees ?? '';
      onChange();
    });
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
    const down = this.#modes.find(({ mode }) => mode === privacy.mode)?.downBytes;
    const answered = down === undefined ? '' : `, ${count(down)} bytes came back`;
    this.#saw.textContent = `The server saw ${privacy.sees}. ${requests.length === 1 ? 'One request' : `${requests.length} requests`}: ${count(up)} bytes were sent${answered}.`;
  }

  #choose(mode: Privacy): void {
    this.#select.value = mode;
    this.#select.dispatchEvent(new Event('change'));
  }

  async #offer(): Promise<void> {
    try {
      this.#modes = await this.#connection.modes();
      const offered = this.#modes.map(({ mode }) => mode);
      const options = offered.map((mode) => Object.assign(make('option', '', NAMES[mode]), { value: mode }));
      this.#select.replaceChildren(...options);
      this.#saw.textContent = offered.some((mode) => mode !== 'plain') ? '' : 'This server offers no private modes.';
      if (offered.includes(this.#connection.privacy)) this.#select.value = this.#connection.privacy;
      // A server that takes no vectors: the first of its modes, all of which show it less.
      else if (offered[0] !== undefined) this.#choose(offered[0]);
    } catch (error) {
      this.#isAsked = false;
      this.#saw.textContent = `What the server offers could not be asked for: ${(error as Error).message}`;
    }
  }
}
