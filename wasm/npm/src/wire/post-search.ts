import { loaded } from './loaded.js';
import { ServerError } from '../errors/server-error.js';
import type { SentRequest } from '../types/search-result.js';
import { jsonAnswer } from './json-answer.js';
import type { Answer } from './parse-answer.js';
import type { Transport } from './transport.js';

/** What reads answers. */
export const reader = (): Promise<typeof import('./read-answer.js')> => loaded(import('./read-answer.js'));

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
  const init: RequestInit = { method, body: body as string, cache: 'no-store', signal };
  const [response, value] = await jsonAnswer(requests.send(url, { ...init, headers }, own), (cause) =>
    noAnswer('unreachable', 'the search server did not answer', cause),
  );
  return (await reader()).readAnswer(response, value, vectors);
}

/** The error for an answer that did not come in so many milliseconds. */
export function silent(timeout: number): ServerError {
  return noAnswer('timeout', `the search server did not answer within ${timeout / 1000} s`);
}

function noAnswer(code: string, message: string, cause?: unknown): ServerError {
  return new ServerError(code, 0, message, 'Check the connection and that the server is running, then search again.', { cause });
}
