import { DprWebError } from './dpr-web-error.js';

/** The encoder or client was disposed before, or while, it was asked for something. */
export class DisposedError extends DprWebError {
  override readonly name = 'DisposedError';

  /** @param what - the disposed object, for the message: `SearchClient` or `QuestionEncoder` */
  constructor(what: string) {
    super(`this ${what} was disposed`, `Create a new ${what}.`, 'disposed');
  }
}
