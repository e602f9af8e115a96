// What the pages have in common: one visit, timed from the navigation.
const query = new URLSearchParams(location.search);

const steps = {};

/** Notes when something happened, for the output with `--json`. */
export function step(name) {
  steps[name] ??= Math.round(performance.now());
}

/** Runs `search(question, ready)` and leaves times and the first passage in `window.visit`. */
export async function visit(search) {
  let readyMs;
  try {
    const hits = await search(query.get('question'), () => {
      readyMs = performance.now();
    });
    window.visit = { readyMs, firstHitMs: performance.now(), title: hits[0].title, steps };
  } catch (error) {
    window.visit = { error: `${error.name}: ${error.message}` };
  }
}

/** Searches with a vector that another library made. */
export async function search(vector) {
  const response = await fetch('/v1/search', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ vector: Array.from(vector), k: 5, model: query.get('model') }),
  });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()).hits;
}
