import { InsecureContextError } from '../errors/insecure-context-error.js';

/**
 * SHA-256 of the bytes, 64 lower-case hex digits. The browser hashes off the main thread.
 * @throws {@link InsecureContextError} where the browser offers no `crypto.subtle`
 */
export async function sha256Hex(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = await subtle().digest('SHA-256', bytes);
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Fails before anything is downloaded when nothing could be checked afterwards. */
export function requireSecureContext(): void {
  subtle();
}

function subtle(): SubtleCrypto {
  const subtle = globalThis.crypto?.subtle as SubtleCrypto | undefined;
  if (!subtle) throw new InsecureContextError();
  return subtle;
}
