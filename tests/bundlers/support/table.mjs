// The results as a table.

/** Rows of text with columns of one width each. */
export function table(head, rows) {
  const all = [head, ...rows].map((row) => row.map(String));
  const widths = head.map((_, at) => Math.max(...all.map((row) => row[at].length)));
  return all
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at]))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** One line of the table. */
export function rowOf({ name, versions, seconds, size, browsers, wrong }) {
  const bytes = size ? `${size.raw} (${size.gzip} gzip)` : '';
  return [name, versions, seconds ? seconds.toFixed(1) : '', bytes, browsers.join(', '), wrong ? 'FAILED' : 'passed'];
}

export const HEAD = ['case', 'versions', 'build s', 'bytes of scripts', 'browsers', 'result'];
