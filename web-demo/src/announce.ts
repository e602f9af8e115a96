import { byId } from './dom.js';

/** Says something to screen readers, also when it is what was said before. */
export function announce(text: string): void {
  const region = byId('announce');
  // A live region is read when its text changes.
  region.textContent = region.textContent === text ? `${text}\u00a0` : text;
}
