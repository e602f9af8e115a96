import type { Hit } from '../../types/search-result.js';

type Bytes = Uint8Array<ArrayBuffer>;

/** What a page asks for private search; each has an answer of its own kind. */
export interface PrivateCalls {
  /** Read the projection of blurred search. */
  projection: { ask: { bytes: Bytes }; answer: { dim: number; codeLength: number } };
  /** Blur a question under this number. */
  blur: {
    ask: { search: number; level: string; vector: Float32Array; key: Bytes; model: string; tokens: Uint32Array };
    answer: { sent: Bytes };
  };
  /** Rank the candidates of a question: position and score of each, `[k, 2]`. The question is forgotten. */
  candidates: { ask: { search: number; codes: Bytes; k: number }; answer: { ranked: Float64Array<ArrayBuffer> } };
  /** Read the manifest of encrypted search. */
  tables: { ask: { manifest: Bytes }; answer: TablesShape };
  /** Read the files that it names, in its order. */
  files: { ask: { files: Bytes[] }; answer: object };
  /** Make the masks of the next search. */
  prepare: { ask: { k: number }; answer: object };
  /** Begin a search under this number: the message that asks for a ranking. */
  ask: { ask: { search: number; vector: Float32Array; k: number }; answer: { message: Bytes } };
  /** Take the answer to it: the number of changes since the tables were made, and whether the worker knows fewer. */
  ranked: { ask: { search: number; answer: Bytes }; answer: { changes: number; isBehind: boolean } };
  /** Take in what has changed. */
  update: { ask: { delta: Bytes }; answer: object };
  /** The message that fetches. */
  choose: { ask: { search: number }; answer: { message: Bytes } };
  /** Take the answer to that: the passages. The search is forgotten. */
  open: { ask: { search: number; answer: Bytes }; answer: { hits: Hit[] } };
  /** Forget a question or search, whatever step it is at. */
  drop: { ask: { search: number }; answer: object };
}

/** What the manifest of encrypted search says, checked. */
export interface TablesShape {
  version: string;
  model: string;
  dims: number;
  files: { name: string; bytes: number; sha256: string }[];
  /** Bytes of the four bodies of a search for 1 passage, for 2, and so on. */
  traffic: number[][];
}

/** The name of a call. */
export type PrivateCallName = keyof PrivateCalls;

/** A call as it is sent to a worker. */
export type PrivateCall = { [N in PrivateCallName]: { name: N } & PrivateCalls[N]['ask'] }[PrivateCallName];

/** Any answer. */
export type PrivateAnswer = PrivateCalls[PrivateCallName]['answer'];
