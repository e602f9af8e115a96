import { DprWebError, type DprErrorOptions } from './dpr-web-error.js';

/** A model file or manifest could not be downloaded, also not on further tries. */
export class DownloadError extends DprWebError {
  override readonly name = 'DownloadError';
  /** Address that was asked for. */
  readonly url: string;
  /** HTTP status, or 0 when no answer came. */
  readonly status: number;

  constructor(
    url: string,
    status: number,
    reason: string,
    options?: DprErrorOptions,
    code = 'download_failed',
    fix = status === 404
      ? 'Check the address. `dpr export-web` makes the files.'
      : 'Check the connection and that the server is running, then search again.',
  ) {
    super(`${url} could not be downloaded: ${reason}`, fix, code, options);
    this.url = url;
    this.status = status;
  }
}
