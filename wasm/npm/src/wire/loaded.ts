import { EncoderError } from '../errors/encoder-error.js';

/**
 * A script of this package that a page fetches when it needs it.
 *
 * @throws {@link EncoderError} `script_not_loaded`
 */
export async function loaded<T>(part: Promise<T>): Promise<T> {
  try {
    return await part;
  } catch (error) {
    throw new EncoderError(
      `a script of dpr-web could not be loaded: ${(error as Error).message}`,
      'Reload the page: it may have a newer version.',
      'script_not_loaded',
      { cause: error },
    );
  }
}
