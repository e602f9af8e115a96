import { DprWebError } from '../errors/dpr-web-error.js';

/** Whether an error is of the device, so that another may be tried. A failed download or a wrong file is not. */
export function isDeviceFailure(error: unknown): boolean {
  return !(error instanceof DprWebError);
}

/** The error's message, or what was thrown in place of an error, as a string. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
