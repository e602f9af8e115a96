import { DprWebError } from './dpr-web-error.js';

/** An option or argument cannot be what it is. Its code is `invalid_option`. */
export class OptionError extends DprWebError {
  override readonly name = 'OptionError';

  constructor(message: string, fix: string, options?: ErrorOptions) {
    super(message, fix, 'invalid_option', options);
  }
}
