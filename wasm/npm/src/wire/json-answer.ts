import { DprWebError } from '../errors/dpr-web-error.js';

/**
 * An answer and what it says: a `SyntaxError` where that is not JSON, nothing where the status is not 2xx.
 *
 * @param broken - the error for an answer that does not come, or ends early
 */
export async function jsonAnswer(sent: Promise<Response>, broken: (cause: unknown) => DprWebError): Promise<[Response, unknown]> {
  try {
    const response = await sent;
    return [response, response.ok ? await response.json().catch(unlessBroken) : undefined];
  } catch (error) {
    throw error instanceof DprWebError ? error : broken(error);
  }
}

function unlessBroken(error: unknown): unknown {
  if (error instanceof SyntaxError) return error;
  throw error;
}
