import { DprWebError } from './dpr-web-error.js';

/**
 * The server's model, or the static index, is not the one that the page expects (`expect`, `expectIndex`). Nothing of
 * it was loaded.
 */
export class ModelMismatchError extends DprWebError {
  override readonly name = 'ModelMismatchError';
  /**
   * What differs: `fingerprint`, `config`, `tokenizer`, `vocabulary`, a weights format, e.g. `q8`, or, of a static
   * index, `index`.
   */
  readonly what: string;
  /** The value that the page expects; `undefined` when it expects none of this name. */
  readonly expected: string | undefined;
  /** The value that the manifest has, for `index` its own SHA-256; `undefined` when it has none of this name. */
  readonly got: string | undefined;

  constructor(what: string, expected: string | undefined, got: string | undefined) {
    const [whole, part, option, source] =
      what === 'index'
        ? ['static index', 'SHA-256', '`expectIndex` (or `expect.index`)', 'host']
        : ['model', what, '`expect`', 'server'];
    super(
      `the ${whole} is not the expected one: its ${part} is ${got ?? 'missing'}, expected ${expected ?? 'none'}`,
      `If the ${whole} was changed on purpose, put its new values into ${option}. If not, do not use this ${source}.`,
      'unexpected_model',
    );
    this.what = what;
    this.expected = expected;
    this.got = got;
  }
}
