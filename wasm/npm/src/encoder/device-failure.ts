import { DprWebError } from '../errors/dpr-web-error.js';

/** A failed download or a wrong file is no reason to try another device. */
export function isDeviceFailure(error: unknown): boolean {
  return !(error instanceof DprWebError);
}

/** What an error says. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
