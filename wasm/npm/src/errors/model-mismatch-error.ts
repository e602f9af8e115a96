import { DprWebError } from './dpr-web-error.js';

/** The server's model is not the one that the page expects (`expect`). Nothing of it was loaded. */
export class ModelMismatchError extends DprWebError {
  override readonly name = 'ModelMismatchError';
  /** What differs: `fingerprint`, `config`, `tokenizer`, `vocabulary`, a weights format, e.g. `q8`, or a static `index`. */
  readonly what: string;
  /** The value that the page expects; `undefined` when it expects none of this name. */
  readonly expected: string | undefined;
  /** The value that the manifest has; `undefined` when it has none of this name. */
  readonly got: string | undefined;

  constructor(what: string, expected: string | undefined, got: string | undefined) {
    super(
      `the model is not the expected one: its ${what} is ${got ?? 'missing'}, expected ${expected ?? 'none'}`,
      'If the model was changed on purpose, put its new values into `expect`. If not, do not use this server.',
      'unexpected_model',
    );
    this.what = what;
    this.expected = expected;
    this.got = got;
  }
}
