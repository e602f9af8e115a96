import { DprWebError } from './dpr-web-error.js';

/** The model manifest is not one this package can read. */
export class ManifestError extends DprWebError {
  override readonly name = 'ManifestError';

  constructor(
    message: string,
    fix = 'Check that the address is that of a `dpr serve` and that dpr-web and the server are of the same release.',
    code = 'invalid_manifest',
  ) {
    super(message, fix, code);
  }
}
