import { DprWebError, type DprErrorOptions } from './dpr-web-error.js';

/** An answer of a private search is not what it should be. Nothing was shown of it, and nothing was sent again. */
export class SpoiledAnswerError extends DprWebError {
  override readonly name = 'SpoiledAnswerError';

  constructor(reason: string, options?: DprErrorOptions) {
    super(
      `the answer to a private search is refused: ${reason}`,
      'Nothing was sent again. If it happens again, the server, or something between, is broken or not honest.',
      'spoiled_answer',
      options,
    );
  }
}
