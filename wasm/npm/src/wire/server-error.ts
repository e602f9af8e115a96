import { ServerError } from '../errors/server-error.js';
import { retryAfter } from './retry-after.js';

/** Turns an answer that is not 2xx into a {@link ServerError}, also when a proxy wrote it in HTML. */
export async function readServerError(response: Response): Promise<ServerError> {
  const { status, statusText } = response;
  const body = (await response.json().catch(() => undefined)) as { error?: Record<string, unknown> | null } | null | undefined;
  const { code, message, fix } = body?.error ?? {};
  const isOwn = typeof code === 'string' && typeof message === 'string';
  return new ServerError(
    isOwn ? code : 'unexpected_answer',
    status,
    isOwn ? message : `the server answered ${status} ${statusText}`.trimEnd(),
    isOwn && typeof fix === 'string' ? fix : fallbackFix(status),
    { retryAfter: retryAfter(response) },
  );
}

function fallbackFix(status: number): string {
  if (status === 429 || status === 503) return 'Wait a moment and search again.';
  if (status === 404) return 'Check that the address is that of a `dpr serve`.';
  if (status === 401 || status === 403) return 'Check the API key, or ask who runs the server for access.';
  return 'Search again; if it happens again, tell who runs the server.';
}
