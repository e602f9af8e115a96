/** What of the CPU module belongs to private search. The module's objects hold what is secret. */
export interface WasmPrivate {
  Blurred: { read(projection: Uint8Array): WasmBlurred };
  PrivateTables: { read(manifest: Uint8Array): WasmPrivateTables };
  EncryptedTables: {
    read(tables: WasmPrivateTables, projection: Uint8Array, columns: Uint8Array, rank: Uint8Array, text: Uint8Array): WasmEncryptedTables;
  };
}

/** A projection that was checked. */
export interface WasmBlurred {
  readonly dim: number;
  readonly codeLength: number;
  ask(level: string, vector: Float32Array, key: Uint8Array, model: string, tokens: Uint32Array): WasmBlurredQuestion;
  free(): void;
}

/** A question that was blurred. */
export interface WasmBlurredQuestion {
  /** Two bytes for each coordinate. */
  readonly sent: Uint8Array;
  /** Position and score of the best candidates, `[k, 2]`. */
  rank(codes: Uint8Array, k: number): Float64Array;
  free(): void;
}

/** A manifest that was checked. */
export interface WasmPrivateTables {
  readonly version: string;
  readonly model: string;
  readonly dims: number;
  /** Name, bytes and SHA-256 of each file. */
  readonly files: unknown[];
  traffic(k: number): Iterable<number>;
  free(): void;
}

/** The files that everybody downloads, and the masks of the next search. */
export interface WasmEncryptedTables {
  prepare(k: number): void;
  ask(vector: Float32Array, k: number): { readonly message: Uint8Array; search(): WasmEncryptedSearch };
  /** The number of changes since the tables were made; below 0 where they are known. */
  ranked(search: WasmEncryptedSearch, answer: Uint8Array): number;
  update(delta: Uint8Array): void;
  choose(search: WasmEncryptedSearch): Uint8Array;
  open(search: WasmEncryptedSearch, answer: Uint8Array): void;
  free(): void;
}

/** One search. */
export interface WasmEncryptedSearch {
  readonly columns: Uint8Array[];
  /** Column, line and score of each passage, `[k, 3]`. */
  readonly places: Float64Array;
  free(): void;
}
