/** `23.1 MB`, in decimal megabytes as browsers and network providers count. */
export function megabytes(bytes: number): string {
  return `${fixed(bytes / 1e6, 1)} MB`;
}

/** `0.8 ms`, `12 ms`, `1.2 s`. */
export function milliseconds(value: number): string {
  if (value >= 1000) return `${fixed(value / 1000, 1)} s`;
  return `${fixed(value, value < 10 ? 1 : 0)} ms`;
}

/** `0.712`, in the way of the browser's language. */
export function fixed(value: number, digits: number): string {
  return value.toLocaleString(undefined, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** `4,196`. */
export function count(value: number): string {
  return value.toLocaleString();
}
