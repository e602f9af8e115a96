import { ServerError } from '../errors/server-error.js';
import { parseAnswer, type Answer } from './parse-answer.js';
import { readServerError } from './server-error.js';

// What reads answers to searches: a script of its own, which a page fetches once it can search.

/**
 * The answer to a search.
 *
 * @param value - what came, where the status is 2xx; a `SyntaxError` where that is not JSON
 * @param vectors - how many the request has, where they are a list
 * @throws {@link ServerError}: the server's own, or `unexpected_answer`
 */
export async function readAnswer(response: Response, value: unknown, vectors?: number): Promise<Answer> {
  if (!response.ok) throw await readServerError(response);
  if (value instanceof SyntaxError) {
    throw new ServerError(
      'unexpected_answer',
      200,
      'the answer of the search server is not JSON',
      'Check that the address is that of a `dpr serve`.',
      { cause: value },
    );
  }
  return parseAnswer(value, response.status, vectors);
}
