import { DprWebError } from './dpr-web-error.js';

/** A downloaded file is not the one the manifest names. It was not kept. */
export class IntegrityError extends DprWebError {
  override readonly name = 'IntegrityError';
  /** File name, e.g. `question_encoder.q8.safetensors`. */
  readonly file: string;
  /** SHA-256 the manifest promises, 64 hex digits. */
  readonly expected: string;
  /** SHA-256 of what arrived, or a description when the length alone gave it away. */
  readonly got: string;

  constructor(file: string, expected: string, got: string) {
    super(
      `${file} is corrupted: expected sha256 ${expected}, got ${got}`,
      'Reload the page. If it happens again, a proxy, an antivirus or the server has changed it.',
      'corrupted_file',
    );
    this.file = file;
    this.expected = expected;
    this.got = got;
  }
}
