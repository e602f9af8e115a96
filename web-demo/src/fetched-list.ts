import { byId, make } from './dom.js';
import { count } from './format.js';

/** Addresses of searches, in each mode of a server: they are listed with what they sent. */
const SEARCHES = /\/v1\/(search|private\/candidates|encrypted\/(rank|fetch|delta\/.+))$/;

/** Everything that was fetched, by the page and by its workers, with the bytes that came; failed requests too. */
export class FetchedList {
  readonly #list = byId('fetched');
  /** What workers said they fetched; the page's own list may have a part of it, such as their scripts. */
  readonly #ofWorkers = new Map<string, HTMLElement>();
  readonly #ofPage = new Set<string>();
  #total = 0;

  constructor() {
    const page = performance.getEntriesByType('navigation')[0] as PerformanceResourceTiming | undefined;
    if (page) this.#add(page.name, page.transferSize, false);
    if (!('PerformanceObserver' in window)) return;
    // The browser itself keeps the list of what the page asked for.
    new PerformanceObserver((entries) => {
      for (const entry of entries.getEntries()) this.#ofPageEntry(entry as PerformanceResourceTiming);
    }).observe({ type: 'resource', buffered: true });
  }

  /** Lists what a worker fetched: the browser keeps no list of that for the page. */
  addOfWorker(urls: readonly string[], bytes: readonly number[]): void {
    for (const [position, url] of urls.entries()) {
      if (this.#ofPage.has(url) || this.#ofWorkers.has(url)) continue;
      this.#ofWorkers.set(url, this.#add(url, bytes[position] ?? 0, false, 'worker'));
    }
  }

  #ofPageEntry({ name, transferSize, responseStatus }: PerformanceResourceTiming): void {
    // Searches stand above, with what they sent.
    if (SEARCHES.test(new URL(name, location.href).pathname)) return;
    this.#ofPage.add(name);
    const known = this.#ofWorkers.get(name);
    if (known && transferSize === 0) return;
    known?.remove();
    // Without a status the browser does not tell, unless nothing came at all.
    this.#add(name, transferSize, responseStatus >= 400);
  }

  #add(url: string, bytes: number, failed: boolean, by = ''): HTMLElement {
    const { origin, pathname } = new URL(url, location.href);
    const address = make('b', '', `GET ${origin === location.origin ? '' : origin}${pathname}`);
    const what = [failed ? 'failed' : '', by, bytes > 0 ? `${count(bytes)} bytes` : 'from the cache or not told'];
    const item = make('li', '', address, make('span', '', what.filter(Boolean).join(', ')));
    if (failed) item.dataset['failed'] = '';
    this.#list.append(item);
    this.#total += bytes;
    byId('fetched-count').textContent = `(${count(this.#list.children.length)} requests, ${count(this.#total)} bytes)`;
    return item;
  }
}
