import { OptionError } from '../errors/option-error.js';
import { pageAddress } from './page-address.js';

/**
 * The absolute address of what the page gave.
 *
 * @throws {@link OptionError} when it is not an address, or a relative one where no document is
 */
export function address(url: string | URL, what: string, base: string | URL | undefined = pageAddress()): URL {
  try {
    return new URL(String(url), base);
  } catch (error) {
    throw new OptionError(
      `${what} is not an address: ${String(url)}`,
      'Give an address with https://, or on a page a relative one.',
      { cause: error },
    );
  }
}
