import { ManifestError } from '../errors/manifest-error.js';

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

/** Bytes of the length that a safetensors file begins with. */
const LENGTH = 8;

/**
 * A safetensors file with these tensors of another one.
 *
 * @param what - the other one, for messages
 * @throws {@link ManifestError} when it has not all of them
 */
export function sharedTensors(
  file: Uint8Array<ArrayBuffer>,
  names: readonly string[],
  what: string,
): Uint8Array<ArrayBuffer> {
  const { header, data } = parts(file, what);
  const entries: Record<string, Entry> = {};
  const pieces: Uint8Array[] = [];
  let size = 0;
  for (const name of new Set(names)) {
    const entry = Object.hasOwn(header, name) ? header[name] : undefined;
    const [from, to] = entry?.data_offsets ?? [];
    if (!entry || !isPlace(from, to, data.length)) throw missing(name, what);
    const { dtype, shape } = entry;
    entries[name] = { dtype, shape, data_offsets: [size, (size += to! - from!)] };
    pieces.push(data.subarray(from, to));
  }
  const text = new TextEncoder().encode(JSON.stringify(entries));
  const made = new Uint8Array(LENGTH + text.length + size);
  new DataView(made.buffer).setBigUint64(0, BigInt(text.length), true);
  made.set(text, LENGTH);
  let at = LENGTH + text.length;
  for (const piece of pieces) {
    made.set(piece, at);
    at += piece.length;
  }
  return made;
}

function parts(file: Uint8Array<ArrayBuffer>, what: string): { header: Record<string, Entry>; data: Uint8Array } {
  try {
    const length = Number(new DataView(file.buffer, file.byteOffset, file.byteLength).getBigUint64(0, true));
    if (LENGTH + length > file.length) throw new RangeError('its header is cut short');
    const header = JSON.parse(new TextDecoder().decode(file.subarray(LENGTH, LENGTH + length))) as Record<string, Entry>;
    return { header: Object(header) as Record<string, Entry>, data: file.subarray(LENGTH + length) };
  } catch (error) {
    throw new ManifestError(`${what} is not a safetensors file: ${(error as Error).message}`);
  }
}

function isPlace(from: unknown, to: unknown, length: number): boolean {
  return Number.isInteger(from) && Number.isInteger(to) && 0 <= Number(from) && Number(from) <= Number(to) && Number(to) <= length;
}

function missing(name: string, what: string): ManifestError {
  return new ManifestError(
    `${what} has no tensor ${name}, which the model manifest says it shares`,
    'Run `dpr export-web` again, and restart the server.',
  );
}
