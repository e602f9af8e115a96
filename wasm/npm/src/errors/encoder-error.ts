import { DprWebError } from './dpr-web-error.js';

/** The question encoder could not be started, or could not encode a question, on any device. */
export class EncoderError extends DprWebError {
  override readonly name = 'EncoderError';

  constructor(
    message: string,
    fix = 'Reload the page, or choose another device.',
    code = 'encoder_failed',
    options?: ErrorOptions,
  ) {
    super(message, fix, code, options);
  }
}
