/** What this page keeps between visits, in the browser alone: choices of how it looks, behaves and searches, never a question. */
const PREFIX = 'dpr-demo:';

/** The value that was kept under a name, if it is one of those that are known; else the first of these. */
export function recall<T extends string>(name: string, known: readonly [T, ...T[]]): T {
  try {
    const value = localStorage.getItem(PREFIX + name);
    return known.find((one) => one === value) ?? known[0];
  } catch {
    return known[0]; // storage is blocked
  }
}

/** Keeps it for the next visit. */
export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // As above.
  }
}
