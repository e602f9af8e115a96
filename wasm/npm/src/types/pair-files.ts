/** A model that reads a question and a passage together. */
export type PairKind = 'reader' | 'reranker';

/** What a model of pairs is made from. */
export interface PairFiles {
  config: Uint8Array<ArrayBuffer>;
  tokenizer: Uint8Array<ArrayBuffer>;
  weights: Uint8Array<ArrayBuffer>;
  /** A safetensors file of what `weights` leaves out. */
  shared: Uint8Array<ArrayBuffer> | undefined;
}
