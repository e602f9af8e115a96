import { DprWebError, type Progress } from 'dpr-web';
import { byId, make } from './dom.js';
import { megabytes } from './format.js';

const DEVICE_NAMES = { webgpu: 'WebGPU', cpu: 'the CPU' };
const DTYPE_NAMES = { f32: '32-bit', f16: '16-bit', q8: '8-bit', q4: '4-bit' };

/** The line under the search box: what the encoder is doing, and what went wrong, in words. */
export class StatusLine {
  readonly #text = byId('state-text');
  readonly #dot = document.querySelector<HTMLElement>('.dot')!;
  readonly #bar = byId<HTMLProgressElement>('download');
  readonly #notice = byId('notice');
  readonly #error = byId('error');
  readonly #files = new Map<string, { loaded: number; total: number }>();
  #queued = false;
  #isSearching = false;
  /** The status text while questions can be encoded; empty before the encoder is ready. */
  #ready = '';

  /** Back to the start, before a model is loaded. */
  reset(): void {
    this.#queued = false;
    this.#isSearching = false;
    this.#ready = '';
    this.#files.clear();
    this.#notice.hidden = true;
    this.clearError();
    this.#say('busy', 'Asking the server for its model…');
  }

  /** Shows a step of loading. */
  progress(event: Progress): void {
    switch (event.status) {
      case 'download':
      case 'progress': {
        const loaded = event.status === 'progress' ? event.loaded : event.resumedAt;
        this.#files.set(event.file, { loaded, total: event.total });
        this.#showDownload();
        return;
      }
      case 'done':
        if (event.source === 'network') this.#files.set(event.file, { loaded: event.total, total: event.total });
        if ([...this.#files.values()].every(({ loaded, total }) => loaded === total)) {
          this.#bar.hidden = true;
          // The next download has a total of its own.
          if (this.#ready) this.#files.clear();
          this.#starting();
        }
        return;
      case 'fallback':
        this.#notice.textContent = `WebGPU could not be used here: ${event.reason}. Questions are encoded on the CPU instead.`;
        this.#notice.hidden = false;
        return;
      case 'ready':
        if (!this.#ready) {
          this.#queued = false;
          this.#bar.hidden = true;
          this.#files.clear();
        } else if (!event.change) {
          // The encoder of a static index, which is ready before the index is open.
          return;
        }
        this.#ready = `Ready. Questions are encoded on ${DEVICE_NAMES[event.device]}, with ${DTYPE_NAMES[event.dtype]} weights.`;
        this.searching(this.#isSearching);
    }
  }

  /** A search waits for the model. */
  queued(): void {
    this.#queued = true;
    this.#say('busy', this.#withQueue('Loading the question encoder'));
  }

  /** The search that waited for the model was given up. */
  unqueued(): void {
    if (!this.#queued) return;
    this.#queued = false;
    this.#say('busy', this.#withQueue('Loading the question encoder'));
  }

  /** A search is under way, or has ended. */
  searching(underWay: boolean): void {
    this.#isSearching = underWay;
    if (underWay) this.#say('busy', 'Searching…');
    else this.#say('good', this.#ready);
  }

  /** The server has another model since, and the page has it too. */
  changed(model: string): void {
    this.#notice.textContent = `The server has another model now, ${model}. It was loaded, and the search was sent again.`;
    this.#notice.hidden = false;
  }

  /** What happened and what to do, with a button that does it. */
  fail(error: unknown, action: string, retry: () => void): void {
    const message = error instanceof Error ? error.message : String(error);
    const fix = error instanceof DprWebError ? error.fix : 'Reload the page; if it happens again, try another browser.';
    const button = make('button', '', action);
    button.type = 'button';
    button.addEventListener('click', retry);
    this.#error.replaceChildren(make('strong', '', sentence(message)), make('span', '', fix), make('br'), button);
    this.#error.hidden = false;
    if (!this.#ready) return;
    // A download that the search waited for may have ended with it.
    this.#bar.hidden = true;
    this.searching(false);
  }

  /** The encoder is not there at all. */
  down(): void {
    this.#bar.hidden = true;
    this.#say('bad', 'The question encoder is not running.');
  }

  clearError(): void {
    // Its button goes, and the keyboard's place with it; on a touch screen the focus would bring up the keyboard.
    const hasFocus = this.#error.contains(document.activeElement);
    if (hasFocus && matchMedia('(pointer: fine)').matches) byId('question').focus({ preventScroll: true });
    this.#error.hidden = true;
    this.#error.replaceChildren();
  }

  /**
   * Says what goes on after a download: the start of the question encoder or, where that is ready, the search or
   * nothing.
   */
  #starting(): void {
    if (this.#ready) this.searching(this.#isSearching);
    else this.#say('busy', this.#withQueue('Starting the question encoder'));
  }

  #showDownload(): void {
    const files = [...this.#files.values()];
    const loaded = files.reduce((sum, file) => sum + file.loaded, 0);
    const total = files.reduce((sum, file) => sum + file.total, 0);
    this.#bar.hidden = false;
    this.#bar.value = loaded / total;
    const what = this.#ready ? 'what this search needs' : 'the question encoder';
    this.#say('busy', this.#withQueue(`Downloading ${what}, once: ${megabytes(loaded)} of ${megabytes(total)}`));
  }

  #withQueue(text: string): string {
    return this.#queued ? `${text}. Your question is searched as soon as it is here.` : `${text}…`;
  }

  #say(tone: 'busy' | 'good' | 'bad', text: string): void {
    this.#dot.dataset['tone'] = tone;
    if (this.#text.textContent !== text) this.#text.textContent = text;
    // A screen reader should not read every megabyte.
    byId('state').setAttribute('aria-live', text.startsWith('Downloading') ? 'off' : 'polite');
  }
}

function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}${/[.!?]$/.test(message) ? '' : '.'}`;
}
