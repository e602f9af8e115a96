import { bytesToBase64 } from './bytes-to-base64.js';

const NAME = 'dpr-web device key';
const BYTES = 32;

/** The key of this page, where none is kept for longer. */
let ofPage: Uint8Array<ArrayBuffer> | undefined;

/**
 * The secret that noise is made from: 32 random bytes that this browser keeps for this origin, or, with `session`, and
 * where storage is blocked, until the page goes.
 */
export function deviceKey(memory: 'device' | 'session'): Uint8Array<ArrayBuffer> {
  return (memory === 'device' && keptKey()) || (ofPage ??= fresh());
}

function keptKey(): Uint8Array<ArrayBuffer> | undefined {
  try {
    const kept = read();
    if (kept) return kept;
    // What an earlier question of this page was blurred with stays in use.
    localStorage.setItem(NAME, bytesToBase64((ofPage ??= fresh())));
    // Another tab may have been at it too: whoever reads it gets the same.
    return read();
  } catch {
    return undefined;
  }
}

/** The kept key; `undefined` where there is none, or something else, which a new key then replaces. */
function read(): Uint8Array<ArrayBuffer> | undefined {
  const text = localStorage.getItem(NAME) ?? '';
  // 32 bytes as base64, which `atob` reads without an error.
  if (!/^[a-z\d+/]{43}=$/i.test(text)) return undefined;
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function fresh(): Uint8Array<ArrayBuffer> {
  return crypto.getRandomValues(new Uint8Array(BYTES));
}
