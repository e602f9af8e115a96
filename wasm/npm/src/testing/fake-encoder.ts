import { DisposedError } from '../errors/disposed-error.js';
import { EncoderError } from '../errors/encoder-error.js';
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
    this.#check(signal);
    this.texts.push(text);
    return fakeVector(text);
  }

  encodeMany(texts: readonly string[], options?: EncodeOptions): Promise<Float32Array[]> {
    return Promise.all(texts.map((text) => this.encode(text, options)));
  }

  /** A token for each word, and two around them. */
  async countTokens(text: string, { signal }: EncodeOptions = {}): Promise<number> {
    this.#check(signal);
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

  #check(signal: AbortSignal | undefined): void {
    signal?.throwIfAborted();
    if (this.#isDisposed) throw new DisposedError('QuestionEncoder');
  }
}

/** A token for each word and two around them, at most as many as the fake model takes. */
export function fakeTokens(text: string): number {
  return Math.min(text.split(/\s+/u).filter(Boolean).length + 2, FAKE_MODEL.max_question_tokens);
}

/**
 * Returns `[dim]` numbers, of length 1, that depend on every character of the text.
 *
 * @throws {@link EncoderError} for a text without a word, as the encoder does
 */
export function fakeVector(text: string): Float32Array {
  if (!text.trim()) throw new EncoderError('the question is empty', 'Change the question.');
  let state = 1;
  const next = (value: number) => (state = Math.imul(state ^ value, 16777619));
  for (const character of text) next(character.codePointAt(0)!);
  const vector = Float32Array.from({ length: FAKE_MODEL.dim }, (_, position) => next(position));
  const norm = Math.hypot(...vector);
  return vector.map((value) => value / norm);
}
