/**
 * What every error thrown by this package has in common: a message that says what happened, and a
 * sentence that says what to do about it.
 *
 * @example
 * try {
 *   await client.search('who won super bowl 50');
 * } catch (error) {
 *   if (error instanceof DprWebError) show(error.message, error.fix);
 *   else throw error;
 * }
 */
export abstract class DprWebError extends Error {
  /** What the person or the page can do about it, one or two sentences. */
  readonly fix: string;

  protected constructor(message: string, fix: string, options?: ErrorOptions) {
    super(message, options);
    this.fix = fix;
  }
}
