import { ServerError } from '../errors/server-error.js';
import { retryAfter } from './retry-after.js';

/** Turns an answer that is not 2xx into a {@link ServerError}, also when a proxy wrote it in HTML. */
export async function readServerError(response: Response): Promise<ServerError> {
  const options = { retryAfter: retryAfter(response) };
  const text = await response.text().catch(() => '');
  try {
    const { error } = JSON.parse(text) as { error: { code: unknown; message: unknown; fix?: unknown } };
    if (typeof error.code === 'string' && typeof error.message === 'string') {
      const fix = typeof error.fix === 'string' ? error.fix : fallbackFix(response.status);
      return new ServerError(error.code, response.status, error.message, fix, options);
    }
  } catch {
    // Not the server's own error body: described by its status below.
  }
  return new ServerError(
    'unexpected_answer',
    response.status,
    `the server answered ${response.status} ${response.statusText}`.trimEnd(),
    fallbackFix(response.status),
    options,
  );
}

function fallbackFix(status: number): string {
  if (status === 429 || status === 503) return 'Wait a moment and search again.';
  if (status === 404) return 'Check that the address is that of a `dpr serve`.';
  if (status === 401 || status === 403) return 'Check the API key, or ask who runs the server for access.';
  return 'Search again; if it happens again, tell who runs the server.';
}
