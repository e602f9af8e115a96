import { DprWebError, type DprErrorOptions } from './dpr-web-error.js';

/**
 * The search server refused or failed a request. `code` is the server's own, e.g. `wrong_model`, `overloaded` or
 * `invalid_k`, or `unreachable`, `timeout` or `unexpected_answer`.
 *
 * @example
 * if (error instanceof ServerError && error.code === 'overloaded') retryIn(error.retryAfter);
 */
export class ServerError extends DprWebError {
  override readonly name = 'ServerError';
  /** HTTP status, or 0 when no answer came. */
  readonly status: number;

  constructor(code: string, status: number, message: string, fix: string, options?: DprErrorOptions) {
    super(message, fix, code, options);
    this.status = status;
  }
}
