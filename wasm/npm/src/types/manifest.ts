import type { Dtype } from './device.js';

/** A file of the model: where it is and what it must be. */
export interface ModelFile {
  /** Absolute, or relative to the manifest's address. */
  url: string;
  /** Size in bytes. */
  bytes: number;
  /** SHA-256 of the bytes, 64 lower-case hex digits. */
  sha256: string;
  /** Sums of the parts of the file, by which weights are used while they arrive. */
  chunks?: FileChunks;
}

/** The parts of a file, one behind the other. */
export interface FileChunks {
  /** Size of each part in bytes; the last one may be shorter. */
  bytes: number;
  /** SHA-256 of each part, 64 lower-case hex digits. */
  sha256: string[];
}

/** A file of weights of a {@link PairModel}. */
export interface PairWeights extends ModelFile {
  /**
   * Tensors that the file leaves out: they are those of the question encoder's weights of the same format, by their
   * names there.
   */
  shares?: string[];
}

/** A model that reads a question and a passage together. */
export interface PairModel {
  /** Name for people. */
  name: string;
  /** 64 hex digits over everything that changes a score. */
  fingerprint: string;
  /** A question and a passage are cut to this many tokens together. */
  max_tokens: number;
  config: ModelFile;
  tokenizer: ModelFile;
  /** One or more formats of the same weights. */
  weights: Partial<Record<Dtype, PairWeights>>;
}

/** What `GET /v1/model` answers. Put such a file beside the model's files to serve them without `dpr serve`. */
export interface ModelManifest {
  format_version: number;
  /** Name for people, e.g. `all-MiniLM-L6-v2`. */
  name: string;
  /** 64 hex digits over everything that changes a vector; sent with each search. */
  fingerprint: string;
  /** Numbers in a vector; with `l2`, the coordinate that lets inner products rank by distance included. */
  dim: number;
  /** How vectors are compared: `dot`, `cosine` or `l2`. */
  similarity: string;
  /** Encoder family, e.g. `bert`, `roberta` or `modernbert`. */
  family: string;
  /** Questions are cut to this many tokens. */
  max_question_tokens: number;
  /**
   * The text that the encoder puts before every question, e.g. `query: `. Do not add it yourself: it stands in the
   * encoder's configuration, and the encoder does.
   */
  question_prompt?: string;
  /** `vocabulary`: the tokenizer in binary form, which is downloaded in place of `tokenizer` where there is one. */
  encoder: { config: ModelFile; tokenizer: ModelFile; vocabulary?: ModelFile };
  /** One or more formats of the same weights. */
  weights: Partial<Record<Dtype, ModelFile>>;
  /** Marks answers in passages; checked when it is first used. File addresses are as the server gave them. */
  reader?: PairModel;
  /** Re-ranks passages; checked when it is first used. */
  reranker?: PairModel;
  /** Where the server describes a smaller encoder of the same vectors, which `encoder: 'small'` loads. */
  small?: string;
}
