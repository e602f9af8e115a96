/**
 * Address of the script that the page fetched last since `start` (of `performance.now()`) for a worker, as far as
 * the browser keeps a list of what was fetched; `undefined` when it shows none.
 */
export function fetchedScript(start: number): string | undefined {
  const entries = (globalThis.performance?.getEntriesByType?.('resource') ?? []) as PerformanceResourceTiming[];
  // What neither the document, a script nor `fetch` asked for.
  const scripts = entries.filter(
    ({ initiatorType, startTime, name }) => initiatorType === 'other' && startTime >= start && /\.[cm]?js(\?|$)/.test(name),
  );
  return scripts.at(-1)?.name;
}
