import type { DprWebErrorCode } from '../errors/dpr-web-error.js';

/** What a worker could not do, and what to do about it where that is known. */
export class WorkerFailure extends Error {
  readonly code: DprWebErrorCode;
  readonly fix: string | undefined;

  constructor(message: string, code: DprWebErrorCode = 'encoder_failed', fix?: string) {
    super(message);
    this.code = code;
    this.fix = fix;
  }
}

/** The worker is gone and with it everything it was asked: start another, or give up. */
export class SessionEnded extends WorkerFailure {
  override readonly name = 'SessionEnded';
  /** Whether it was at this very command when it ended. */
  begun = false;
}
