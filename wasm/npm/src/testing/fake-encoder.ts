import { DisposedError } from '../errors/disposed-error.js';
import type { QuestionEncoderLike } from '../types/client-like.js';
import type { Device, Dtype } from '../types/device.js';
import { asyncDispose, dispose } from '../types/disposable.js';
import type { ModelManifest } from '../types/manifest.js';
import type { EncodeOptions } from '../types/options.js';

const FILE = { url: 'https://dpr.test/file', bytes: 1, sha256: '0'.repeat(64) };

/** The model that fakes have: vectors of 4 numbers. */
export const FAKE_MODEL: ModelManifest = {
  format_version: 1,
  name: 'fake',
  fingerprint: 'f'.repeat(64),
  dim: 4,
  similarity: 'dot',
  family: 'bert',
  max_question_tokens: 64,
  encoder: { config: FILE, tokenizer: FILE },
  weights: { q8: FILE },
};

/**
 * A `QuestionEncoder` for tests: no worker, no network. A text has always the same vector, of length 1, and another
 * text has another one; nearness means nothing.
 *
 * @example
 * const encoder = new FakeEncoder();
 * const vector = await encoder.encode('who won super bowl 50'); // 4 numbers
 */
export class FakeEncoder implements QuestionEncoderLike {
  readonly model: ModelManifest = FAKE_MODEL;
  readonly device: Device = 'cpu';
  readonly dtype: Dtype = 'q8';
  readonly isShared = false;
  /** The texts that were encoded, in the order of the calls. */
  readonly texts: string[] = [];
  #isDisposed = false;

  get dim(): number {
    return this.model.dim;
  }

  async encode(text: string, { signal }: EncodeOptions = {}): Promise<Float32Array> {
    signal?.throwIfAborted();
    if (this.#isDisposed) throw new DisposedError('QuestionEncoder');
    this.texts.push(text);
    return fakeVector(text, this.dim);
  }

  async encodeMany(texts: readonly string[], options: EncodeOptions = {}): Promise<Float32Array[]> {
    const vectors: Float32Array[] = [];
    for (const text of texts) vectors.push(await this.encode(text, options));
    return vectors;
  }

  /** A token for each word, and two around them. */
  async countTokens(text: string, { signal }: EncodeOptions = {}): Promise<number> {
    signal?.throwIfAborted();
    if (this.#isDisposed) throw new DisposedError('QuestionEncoder');
    return fakeTokens(text);
  }

  dispose(): void {
    this.#isDisposed = true;
  }

  [dispose](): void {
    this.dispose();
  }

  async [asyncDispose](): Promise<void> {
    this.dispose();
  }
}

/** A token for each word and two around them, at most as many as the fake model takes. */
export function fakeTokens(text: string): number {
  return Math.min(text.split(/\s+/u).filter(Boolean).length + 2, FAKE_MODEL.max_question_tokens);
}

/** `[dim]` numbers, of length 1, that depend on every character of the text. */
export function fakeVector(text: string, dim: number): Float32Array {
  let state = 2166136261;
  const next = (value: number) => (state = Math.imul(state ^ value, 16777619) >>> 0);
  for (const character of text) next(character.codePointAt(0)!);
  const vector = Float32Array.from({ length: dim }, (_, position) => next(position) / 2 ** 32 - 0.5);
  const norm = Math.hypot(...vector);
  return vector.map((value) => value / norm);
}
