import { loaded } from '../wire/loaded.js';

/**
 * The part of this package that loads and runs models: bundlers make a file of its own of it, which a page fetches when
 * it needs it.
 */
export const engine = (): Promise<typeof import('../encoder/question-encoder.js')> =>
  loaded(import('../encoder/question-encoder.js'));

/** The part that re-ranks and answers: for pages that do. */
export const reading = (): Promise<typeof import('../reading/reading.js')> => loaded(import('../reading/reading.js'));

/** The part that searches in private modes. */
export const privacy = (): Promise<typeof import('../privacy/privacy.js')> => loaded(import('../privacy/privacy.js'));
