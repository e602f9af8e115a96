import type { SentRequest } from 'dpr-web';
import { byId, make } from './dom.js';
import { count } from './format.js';

/** Requests kept in the panel; older ones go, the page would grow without end. */
const KEPT = 20;

/** Lists each search request exactly as it was handed to the browser. */
export class SentPanel {
  readonly #list = byId('sent-list');

  constructor() {
    this.#watchDownloads();
  }

  add(request: SentRequest): void {
    byId('sent-none').hidden = true;
    const link = byId('sent-link');
    link.textContent = `${count(request.bytes)} bytes left this page: see them`;
    link.hidden = false;
    for (const older of this.#list.querySelectorAll('details')) older.open = false;
    const path = new URL(request.url).pathname;
    const headers = Object.entries(request.headers).map(([name, value]) => make('dd', '', `${name}: ${value}`));
    const body = make('pre', '', request.body);
    body.tabIndex = 0;
    body.setAttribute('aria-label', 'Request body');
    const details = make(
      'details',
      'request',
      make('summary', '', make('b', '', `${request.method} ${path}`), make('span', '', `${count(request.bytes)} bytes`)),
      make(
        'dl',
        '',
        make('dt', '', 'Address'),
        make('dd', '', request.url),
        make('dt', '', 'Headers set by this page (the browser adds its usual ones)'),
        ...headers,
        make('dt', '', 'Body: the vector in base64, how many passages, which model'),
        make('dd', '', body),
      ),
    );
    details.open = true;
    this.#list.prepend(details);
    while (this.#list.children.length > KEPT) this.#list.lastElementChild!.remove();
  }

  /** All other requests have no body; the browser itself keeps the list. */
  #watchDownloads(): void {
    if (!('PerformanceObserver' in window)) return;
    const list = byId('fetched');
    new PerformanceObserver((entries) => {
      for (const { name } of entries.getEntries()) {
        const { pathname } = new URL(name, location.href);
        if (!pathname.endsWith('/v1/search')) list.append(make('li', '', `GET ${pathname}`));
      }
      byId('fetched-count').textContent = `(${list.children.length})`;
    }).observe({ type: 'resource', buffered: true });
  }
}
