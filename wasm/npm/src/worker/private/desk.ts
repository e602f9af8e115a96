import type { DprWebErrorCode } from '../../errors/dpr-web-error.js';
import type { Hit } from '../../types/search-result.js';
import { ModuleError } from '../module-error.js';
import type { PrivateAnswer, PrivateCall, TablesShape } from './calls.js';
import { inflate, UNSAID } from './inflate.js';
import type { WasmBlurred, WasmBlurredQuestion, WasmEncryptedSearch, WasmEncryptedTables } from './wasm-private.js';
import type { WasmPrivate, WasmPrivateTables } from './wasm-private.js';

/** The most passages of a search. */
const MOST_FETCHES = 10;

/** Private search in the worker: what is secret of a question stays in the module's memory. */
export class PrivateDesk {
  readonly #module: WasmPrivate;
  readonly #questions = new Map<number, WasmBlurredQuestion>();
  readonly #searches = new Map<number, WasmEncryptedSearch>();
  #blurred: WasmBlurred | undefined;
  #manifest: WasmPrivateTables | undefined;
  #tables: WasmEncryptedTables | undefined;

  constructor(module: WasmPrivate) {
    this.#module = module;
  }

  /** Does what was asked for. Errors of the module keep their code. */
  async answer(call: PrivateCall): Promise<PrivateAnswer> {
    try {
      return await this.#answer(call);
    } catch (error) {
      const { code, message } = error as { code?: unknown; message: string };
      if (error instanceof ModuleError || typeof code !== 'string') throw error;
      throw new ModuleError(message, UNSAID, code as DprWebErrorCode);
    }
  }

  async #answer(call: PrivateCall): Promise<PrivateAnswer> {
    const { Blurred, PrivateTables, EncryptedTables } = this.#module;
    switch (call.name) {
      case 'projection': {
        const read = Blurred.read(call.bytes);
        this.#blurred?.free();
        this.#blurred = read;
        return { dim: read.dim, codeLength: read.codeLength };
      }
      case 'blur': {
        const { search, level, vector, key, model, tokens } = call;
        const question = there(this.#blurred).ask(level, vector, key, model, tokens);
        this.#questions.set(search, question);
        return { sent: copy(question.sent) };
      }
      case 'candidates': {
        const ranked = there(this.#questions.get(call.search)).rank(call.codes, call.k);
        this.#drop(call.search);
        return { ranked: Float64Array.from(ranked) };
      }
      case 'tables': {
        const read = PrivateTables.read(call.manifest);
        this.#manifest?.free();
        this.#manifest = read;
        return shapeOf(read);
      }
      case 'files': {
        const manifest = there(this.#manifest);
        // It is consumed, also by an error.
        this.#manifest = undefined;
        const [projection, columns, rank, text] = call.files as [Uint8Array, Uint8Array, Uint8Array, Uint8Array];
        const read = EncryptedTables.read(manifest, projection, columns, rank, text);
        // Searches of the older tables could not go on with these.
        for (const search of this.#searches.keys()) this.#drop(search);
        this.#tables?.free();
        this.#tables = read;
        return {};
      }
      case 'prepare':
        there(this.#tables).prepare(call.k);
        return {};
      case 'ask': {
        const question = there(this.#tables).ask(call.vector, call.k);
        const message = copy(question.message);
        this.#searches.set(call.search, question.search());
        return { message };
      }
      case 'ranked':
        return changesOf(there(this.#tables).ranked(this.#search(call), call.answer));
      case 'update':
        await requireTexts(call.delta);
        there(this.#tables).update(call.delta);
        return {};
      case 'choose':
        return { message: copy(there(this.#tables).choose(this.#search(call))) };
      case 'open': {
        const search = this.#search(call);
        there(this.#tables).open(search, call.answer);
        const { columns, places } = search;
        this.#drop(call.search);
        return { hits: await hitsOf(columns.map(copy), places) };
      }
      case 'drop':
        this.#drop(call.search);
        return {};
    }
  }

  /** Frees what is kept: searches, questions, tables and the projection. Not while a call is answered. */
  free(): void {
    for (const search of [...this.#questions.keys(), ...this.#searches.keys()]) this.#drop(search);
    for (const made of [this.#blurred, this.#manifest, this.#tables]) made?.free();
    this.#blurred = undefined;
    this.#manifest = undefined;
    this.#tables = undefined;
  }

  /** Returns the search that a step belongs to; throws where it was dropped with tables that were replaced. */
  #search({ search }: { search: number }): WasmEncryptedSearch {
    const found = this.#searches.get(search);
    if (found) return found;
    throw new Error(this.#tables ? 'the private tables were replaced meanwhile: search again' : OUT_OF_ORDER);
  }

  #drop(search: number): void {
    for (const kept of [this.#questions, this.#searches] as Map<number, { free(): void }>[]) {
      kept.get(search)?.free();
      kept.delete(search);
    }
  }
}

const OUT_OF_ORDER = 'a step of a private search came before the one that it needs';

/** Returns what a call before this one has made. */
function there<T>(made: T | undefined): T {
  if (made === undefined) throw new Error(OUT_OF_ORDER);
  return made;
}

/** The module's number of changes, which is below 0 where the module knows them. */
function changesOf(changes: number) {
  return { changes: Math.abs(changes), isBehind: changes > 0 };
}

function copy(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes);
}

function shapeOf(tables: WasmPrivateTables): TablesShape {
  const { version, model, dims } = tables;
  const listed = tables.files;
  const files = Array.from({ length: listed.length / 3 }, (_, at) => {
    const [name, bytes, sha256] = listed.slice(3 * at, 3 * at + 3) as [string, number, string];
    return { name, bytes, sha256 };
  });
  const traffic = Array.from({ length: MOST_FETCHES }, (_, at) => Array.from(tables.traffic(at + 1)));
  return { version, model, dims, files, traffic };
}

/** Reads the passages that were found out of their columns, which were checked by their hashes. */
async function hitsOf(columns: Uint8Array<ArrayBuffer>[], places: Float64Array): Promise<Hit[]> {
  const lines = await Promise.all(columns.map(async (column) => (await inflate(column)).split('\n')));
  return Array.from({ length: places.length / 3 }, (_, at) => {
    const [column, line, score] = places.slice(3 * at, 3 * at + 3) as unknown as [number, number, number];
    return hitOf(lines[column]?.[line], score);
  });
}

/** Reads a line of JSON as a passage with this score. */
function hitOf(line: string | undefined, score: number): Hit {
  try {
    const { id, title, text, metadata } = JSON.parse(line ?? '') as Partial<Hit>;
    if (typeof id === 'string' && typeof title === 'string' && typeof text === 'string') {
      return { id, score, title, text, ...(metadata && { metadata }) };
    }
  } catch {
    // Described below.
  }
  throw new ModuleError('a passage cannot be read', UNSAID, 'spoiled_answer');
}

/** Bytes of a delta before its positions. */
const DELTA_HEAD = 56;

/**
 * Refuses a delta that does not hold as many passages as it adds, before any text is asked for: if only those were read
 * that a question finds, an error would tell the server that the question is near them. The rest of a delta, and one
 * that is too short, are for the module to refuse.
 */
async function requireTexts(delta: Uint8Array<ArrayBuffer>): Promise<void> {
  if (delta.length < DELTA_HEAD) return;
  const head = new DataView(delta.buffer, delta.byteOffset);
  const added = head.getUint32(52, true);
  const texts = delta.subarray(DELTA_HEAD + 4 * head.getUint32(48, true) + added * head.getUint16(6, true));
  const lines = (await inflate(texts)).split('\n');
  // Each line ends with a line feed.
  if (lines.pop() || lines.length !== added) {
    throw new ModuleError('what has changed does not hold the passages that it adds', UNSAID, 'spoiled_answer');
  }
  for (const line of lines) hitOf(line, 0);
}
