import { DprWebError } from './dpr-web-error.js';

/**
 * The search server refused or failed a request.
 *
 * @example
 * if (error instanceof ServerError && error.code === 'wrong_model') location.reload();
 */
export class ServerError extends DprWebError {
  override readonly name = 'ServerError';
  /** Stable code, e.g. `wrong_model`, `overloaded`, `invalid_k`; `unreachable` when no answer came. */
  readonly code: string;
  /** HTTP status, or 0 when no answer came. */
  readonly status: number;

  constructor(code: string, status: number, message: string, fix: string, options?: ErrorOptions) {
    super(message, fix, options);
    this.code = code;
    this.status = status;
  }
}
