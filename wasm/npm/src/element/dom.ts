import type { Hit } from '../types/search-result.js';

/** Sets attributes. The properties that reflect ARIA are younger than the browsers that have modules in workers. */
export function set(element: Element, attributes: Record<string, unknown>): void {
  for (const name in attributes) element.setAttribute(name, attributes[name] as string);
}

/** Adds an element with these attributes, and with a text as text: a passage is not the page's own. */
export function add<K extends keyof HTMLElementTagNameMap>(
  parent: ParentNode,
  name: K,
  attributes: Record<string, unknown>,
  text = '',
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  set(element, attributes);
  element.textContent = text;
  parent.append(element);
  return element;
}

/** Shows the passages as options `option-0`, `option-1` … */
export function fill(list: Element, hits: readonly Hit[]): void {
  list.textContent = '';
  hits.forEach(({ title, text }, position) => {
    const option = add(list, 'li', { part: 'option', id: `option-${position}`, role: 'option', dir: 'auto' });
    if (title) add(option, 'b', { part: 'title' }, title);
    add(option, 'span', { part: 'text' }, text);
  });
}
