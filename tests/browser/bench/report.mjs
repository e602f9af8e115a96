// Medians and ratios out of the raw times.

const EARLY = 20;
/** 8-bit engines round differently; another model or another pooling is off by far more. */
const SAME_WORK = 0.03;
/** A model that has learned another one's vectors, and one that has not. */
export const LEARNED = 0.15;

/** The middle value. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * Per engine: first run, median of the first 20, and of the steady ones; then ours over each of its peers, whose
 * similarity of two questions is within a distance of ours.
 */
export function summarize(engines, within = SAME_WORK) {
  const rows = engines.map(({ name, peers, loadMs, early, steady, similarity }) => ({
    name,
    peers,
    loadMs,
    firstMs: early[0],
    earlyMs: median(early.slice(0, EARLY)),
    steadyMs: median(steady),
    runs: steady.length,
    similarity,
  }));
  const ratios = [];
  for (const [ours, name] of rows.flatMap((row) => row.peers.map((peer) => [row, peer]))) {
    const peer = rows.find((row) => row.name === name);
    // Both gave two questions the same similarity, or they did not do the same work.
    if (Math.abs(ours.similarity - peer.similarity) > within) {
      throw new Error(`${ours.name} finds a similarity of ${ours.similarity}, ${peer.name} of ${peer.similarity}`);
    }
    ratios.push({ ours: ours.name, peer: peer.name, early: ours.earlyMs / peer.earlyMs, steady: ours.steadyMs / peer.steadyMs });
  }
  return { rows, ratios };
}

/** Per engine: the first run after the model's loading, and the median of the others. */
export function summarizeReading({ passages, tokens, rows }) {
  const timed = rows.map(({ name, first, times }) => ({ name, firstMs: first, medianMs: median(times), runs: times.length }));
  return { passages, tokens, rows: timed };
}

/** The tables, for people. */
export function report({ chromium, tokens, cpu, webgpu, passage, reading }) {
  const lines = [`Chromium ${chromium}, one question of ${tokens} tokens, milliseconds, one thread`];
  for (const part of [cpu, webgpu, passage].filter(Boolean)) {
    lines.push('', ...(part === passage ? [`a passage of ${passage.tokens} tokens`] : []), row('', 'load', 'first', `first ${EARLY}`, 'steady', 'runs'));
    for (const { name, loadMs, firstMs, earlyMs, steadyMs, runs } of part.rows) {
      lines.push(row(name, ...[loadMs, firstMs, earlyMs, steadyMs].map((value) => value.toFixed(1)), runs));
    }
    for (const { ours, peer, early, steady } of part.ratios) {
      lines.push(`ratio ${ours} / ${peer}: steady ${steady.toFixed(2)}, first ${EARLY} ${early.toFixed(2)}`);
    }
  }
  if (reading) lines.push(...readingReport(reading));
  return lines.join('\n');
}

function readingReport(reading) {
  const lines = ['', `${reading.passages} passages re-ranked, ${reading.tokens} tokens each with the question, milliseconds`];
  lines.push(row('', 'first', 'median', 'a passage', 'runs'));
  for (const { name, firstMs, medianMs, runs } of reading.rows) {
    lines.push(row(name, ...[firstMs, medianMs, medianMs / reading.passages].map((value) => value.toFixed(1)), runs));
  }
  return lines;
}

function row(name, ...cells) {
  return name.padEnd(32) + cells.map((cell) => String(cell).padStart(10)).join('');
}
