import type { Dtype } from './device.js';

/** What a page knows about the model beforehand; all values are 64 hex digits, as `GET /v1/model` shows them. */
export interface ExpectedModel {
  /** The model's fingerprint. */
  fingerprint?: string | undefined;
  /**
   * SHA-256 of files. Where weights of any format are named, weights of the other formats are not loaded. Name
   * `config`, and `tokenizer` or `vocabulary` too: a file that is not named here is compared with the server's own sum
   * only. `vocabulary` is the tokenizer in binary form; where `tokenizer` alone is named, that one is loaded.
   */
  sha256?: Partial<Record<Dtype | 'config' | 'tokenizer' | 'vocabulary', string>> | undefined;
}

/** What a page knows about an index beforehand. */
export interface ExpectedIndex extends ExpectedModel {
  /**
   * SHA-256 of `dpr-static.json`, 64 hex digits. It names every other file by its own SHA-256, so that this one pins
   * them all; a page with it has to be changed whenever the index is.
   */
  index?: string | undefined;
}
