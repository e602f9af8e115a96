import { DprWebError, type DprErrorOptions } from './dpr-web-error.js';

/**
 * A search was not done because it would have told the server more than its mode allows. Nothing of the question was
 * sent, and no plainer mode took its place.
 */
export class PrivacyError extends DprWebError {
  override readonly name = 'PrivacyError';

  constructor(
    code: 'not_offered' | 'would_reveal' | 'unknown_parameters' | 'too_large',
    message: string,
    fix: string,
    options?: DprErrorOptions,
  ) {
    super(message, fix, code, options);
  }
}
