import { DprWebError } from './dpr-web-error.js';

/**
 * The server's private tables are not those of `expectVersion`. Nothing of the question was sent, or its first message,
 * encrypted.
 */
export class VersionError extends DprWebError {
  override readonly name = 'VersionError';
  readonly expected: string;
  readonly got: string;

  constructor(expected: string, got: string) {
    super(
      `the server has version ${got} of its private tables, expected ${expected}`,
      'If the index was changed on purpose, expect its new version, after `dpr index compact` where it ends in `+N`; if not, do not use this server.',
      'unexpected_version',
    );
    this.expected = expected;
    this.got = got;
  }
}
