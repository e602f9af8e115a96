/** Base64 (standard alphabet, padded) of a few hundred bytes. */
export function bytesToBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}
