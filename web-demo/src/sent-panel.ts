import type { RequestDetail, RequestOutcome } from 'dpr-web';
import { byId, make } from './dom.js';
import { count } from './format.js';

/** Requests kept in the panel; older ones go, the page would grow without end. */
const KEPT = 20;

const OUTCOMES: Record<RequestOutcome, string> = { answered: 'answered', failed: 'failed', aborted: 'given up' };

/** Bytes of a body that are shown; of an encrypted one each is as good as the next. */
const SHOWN = 256;

function shown(body: string | Uint8Array): string {
  if (typeof body === 'string') return body;
  const digits = Array.from(body.slice(0, SHOWN), (byte) => byte.toString(16).padStart(2, '0')).join(' ');
  return body.length > SHOWN ? `${digits} … and ${count(body.length - SHOWN)} bytes more` : digits;
}

/** What the body of a request holds. */
function about(path: string): string {
  if (path.includes('/bucket.')) return 'No body: the host saw which bucket was fetched, and not whether it is a decoy';
  if (path.endsWith('/private/candidates')) return 'Body: coordinates with noise in base64, the level, which projection, which model';
  if (path.endsWith('/encrypted/rank')) return 'Body: a head of 40 bytes, then the encrypted coordinates';
  if (path.endsWith('/encrypted/fetch')) return 'Body: a head of 40 bytes, then the encrypted numbers of columns';
  if (path.includes('/encrypted/delta/')) return 'No body: what has changed in the index since, the same for every question';
  return 'Body: the vector in base64, how many passages, which model';
}

/** Lists each search request as it was handed to the browser, with what became of it. */
export class SentPanel {
  readonly #list = byId('sent-list');

  /** Lists a request that has just left. */
  add({ request, outcome }: RequestDetail): void {
    byId('sent-none').hidden = true;
    const link = byId('sent-link');
    link.textContent = request.bytes > 0 ? `${count(request.bytes)} bytes left this page: see them` : 'Requests left this page: see them';
    link.hidden = false;
    for (const older of this.#list.querySelectorAll('details')) older.open = false;
    const path = new URL(request.url).pathname;
    const headers = Object.entries(request.headers).map(([name, value]) => make('dd', '', `${name}: ${value}`));
    const became = make('span', 'outcome', 'sent');
    void outcome.then((what) => {
      became.textContent = OUTCOMES[what];
      became.dataset['outcome'] = what;
    });
    const body = make('pre', '', shown(request.body));
    body.tabIndex = 0;
    body.setAttribute('role', 'group');
    body.setAttribute('aria-label', 'Request body');
    const details = make(
      'details',
      'request',
      make(
        'summary',
        '',
        make('b', '', `${request.method} ${path}`),
        became,
        make('span', '', `${count(request.bytes)} bytes`),
      ),
      make(
        'dl',
        '',
        make('dt', '', 'Address'),
        make('dd', '', request.url),
        make('dt', '', 'Headers set by this page (the browser adds its usual ones)'),
        ...headers,
        make('dt', '', about(path)),
        make('dd', '', body),
      ),
    );
    details.open = true;
    this.#list.prepend(details);
    while (this.#list.children.length > KEPT) this.#list.lastElementChild!.remove();
  }
}
