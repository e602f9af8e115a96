import { DprWebError } from '../errors/dpr-web-error.js';
import { ServerError } from '../errors/server-error.js';
import type { SentRequest } from '../types/search-result.js';
import { parseAnswer, type Answer } from './parse-answer.js';
import { readServerError } from './server-error.js';
import type { Transport } from './transport.js';

/**
 * Sends a search once and checks its answer.
 *
 * @param own - the page's own headers
 * @param vectors - how many the request has, where they are a list
 * @throws {@link ServerError}
 */
export async function postSearch(
  requests: Transport,
  { url, method, headers, body }: SentRequest,
  own: Record<string, string>,
  vectors: number | undefined,
  signal: AbortSignal,
): Promise<Answer> {
  try {
    const response = await requests.send(url, { method, headers, body: body as string, cache: 'no-store', signal }, own);
    if (!response.ok) throw await readServerError(response);
    return parseAnswer(await response.json(), response.status, vectors);
  } catch (error) {
    throw error instanceof DprWebError ? error : failed(error);
  }
}

/** The error for an answer that did not come in so many milliseconds. */
export function silent(timeout: number): ServerError {
  return new ServerError(
    'timeout',
    0,
    `the search server did not answer within ${timeout / 1000} s`,
    'Search again; if it happens again, tell who runs the server.',
  );
}

function failed(error: unknown): ServerError {
  if (error instanceof SyntaxError) {
    return new ServerError(
      'unexpected_answer',
      200,
      'the answer of the search server is not JSON',
      'Check that the address is that of a `dpr serve`.',
      { cause: error },
    );
  }
  return new ServerError(
    'unreachable',
    0,
    'the search server does not answer',
    'Check the connection and that the server is running, then search again.',
    { cause: error },
  );
}
