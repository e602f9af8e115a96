/**
 * Base64 (standard alphabet, padded) of the vector's numbers as little-endian 32-bit floats,
 * whatever the machine's own byte order. `[dim]` floats give `4 * ceil(4 * dim / 3)` characters.
 */
export function vectorToBase64(vector: Float32Array): string {
  const view = new DataView(new ArrayBuffer(vector.length * 4));
  vector.forEach((value, position) => view.setFloat32(position * 4, value, true));
  let binary = '';
  for (const byte of new Uint8Array(view.buffer)) binary += String.fromCharCode(byte);
  return btoa(binary);
}

/** Inverse of {@link vectorToBase64}: `[dim]` numbers. */
export function base64ToVector(text: string): Float32Array {
  const binary = atob(text);
  if (binary.length % 4 !== 0) {
    throw new RangeError(`${binary.length} bytes are not a whole number of 32-bit floats`);
  }
  const view = new DataView(new ArrayBuffer(binary.length));
  for (let position = 0; position < binary.length; position++) view.setUint8(position, binary.charCodeAt(position));
  return Float32Array.from({ length: binary.length / 4 }, (_, position) => view.getFloat32(position * 4, true));
}
