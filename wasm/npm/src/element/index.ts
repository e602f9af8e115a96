/**
 * The custom element `<dpr-search>`. Importing this defines it; on a server that renders pages it does nothing.
 *
 * @packageDocumentation
 */
import { DprSearchElement, type SearchElementEvents } from './search-element.js';

export type { SearchElementEvents } from './search-element.js';
export { DprSearchElement };

const registry = globalThis.customElements as CustomElementRegistry | undefined;
if (!registry?.get('dpr-search')) registry?.define('dpr-search', DprSearchElement);

declare global {
  interface HTMLElementTagNameMap {
    'dpr-search': DprSearchElement;
  }
  interface HTMLElementEventMap extends SearchElementEvents {}
}
