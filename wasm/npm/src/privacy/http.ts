import { DprWebError } from '../errors/dpr-web-error.js';
import { PrivacyError } from '../errors/privacy-error.js';
import { ServerError } from '../errors/server-error.js';
import { SpoiledAnswerError } from '../errors/spoiled-answer-error.js';
import type { SentRequest } from '../types/search-result.js';
import { silent } from '../wire/post-search.js';
import { readServerError } from '../wire/server-error.js';
import { untilAborted } from '../wire/until-aborted.js';
import { within } from '../wire/within.js';
import type { Announce, PrivateParts } from './parts.js';

type Bytes = Uint8Array<ArrayBuffer>;

/** Most bytes of a description of a mode, and of a refusal. */
const MOST_DESCRIPTION = 1 << 16;

/**
 * The description of a mode, byte for byte.
 *
 * @throws {@link PrivacyError} `not_offered` where the server has none
 */
export function describe(parts: PrivateParts, mode: string, path: string, signal: AbortSignal): Promise<Bytes> {
  const [, , , requests] = parts;
  const limit = { milliseconds: requests.stallTimeout, error: () => silent(requests.stallTimeout) };
  const once = (stop: AbortSignal) =>
    reaching(stop, async () => {
      const response = await requests.send(address(parts, path), { signal: stop });
      if (response.status === 404) throw notOffered(`the server does not offer ${mode} search`);
      if (!response.ok) throw await refusal(response);
      return readAtMost(response, MOST_DESCRIPTION);
    });
  return within([signal], (stop) => requests.retrying(stop.signal, () => once(stop.signal)), limit);
}

/** The address of a path below that of the server. */
export function address(parts: PrivateParts, path: string): string {
  return new URL(path, parts[1]).href;
}

/** The error for a mode, or a level of it, that a client cannot search in. */
export function notOffered(message: string): PrivacyError {
  const fix = 'Nothing was sent. Choose a mode of `client.privacyModes`.';
  return new PrivacyError('not_offered', message, fix);
}

/**
 * Sends a message once, and never again, and returns the answer, of at most so many bytes. Without a body it asks for what
 * everybody is given alike.
 *
 * @param announce - called when it is handed to `fetch`
 */
export async function sendOnce(
  parts: PrivateParts,
  path: string,
  type: string,
  body: string | Bytes,
  most: number,
  signal: AbortSignal,
  announce: Announce,
): Promise<Bytes> {
  const [, , , requests] = parts;
  const url = address(parts, path);
  const own = await requests.headers(url);
  signal.throwIfAborted();
  // As for plain searches: the values of the page's own headers, which are keys, stay out of results and events.
  const hidden = Object.fromEntries(Object.keys(own).map((name) => [name, '(hidden)']));
  const [method, headers]: [SentRequest['method'], Record<string, string>] = body ? ['POST', { 'content-type': type }] : ['GET', {}];
  const bytes = new Blob([body]).size;
  const request: SentRequest = { method, url, headers: { ...hidden, ...headers }, body, bytes };
  const answered = reaching(signal, async () => {
    // A redirection would send it again.
    const init = { method, headers, body: body || null, cache: 'no-store', redirect: 'error', signal } as const;
    const response = await requests.send(url, init, own);
    if (!response.ok) throw await refusal(response);
    return readAtMost(response, most);
  });
  // A page's own `fetch` may know nothing of signals.
  return announce(request, untilAborted(answered, signal));
}

async function reaching<T>(signal: AbortSignal, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof DprWebError) throw error;
    throw new ServerError(
      'unreachable',
      0,
      'the search server did not answer',
      'Check the connection and that the server is running, then search again.',
      { cause: error },
    );
  }
}

async function refusal(response: Response): Promise<ServerError> {
  const { status, statusText, headers } = response;
  const body = await readAtMost(response, MOST_DESCRIPTION).catch(() => null);
  return readServerError(new Response(body, { status, statusText, headers }));
}

/** The bytes of an answer; one that is longer is refused before all of it is here. */
async function readAtMost(response: Response, most: number): Promise<Bytes> {
  const chunks: Bytes[] = [];
  let length = 0;
  // `ReadableStream` has no async iterator in Safari.
  const reader = response.body?.getReader();
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
    length += next.value.length;
    if (length > most) {
      void reader?.cancel().catch(() => undefined);
      throw new SpoiledAnswerError(`it has more than the expected ${most} bytes`);
    }
    chunks.push(next.value);
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}
