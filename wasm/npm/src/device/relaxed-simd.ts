/**
 * The smallest module with an instruction of relaxed SIMD: a function of `unreachable`, after which an instruction needs no
 * operands, `i32x4.relaxed_dot_i8x16_i7x16_add_s`, and `drop`.
 */
const PROBE = [0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 9, 1, 7, 0, 0, 253, 147, 2, 26, 11];

/** Whether this engine has relaxed SIMD: it refuses modules with it otherwise. */
export function hasRelaxedSimd(): boolean {
  try {
    return WebAssembly.validate(Uint8Array.from(PROBE));
  } catch {
    // Without WebAssembly there is an error later, which says so.
    return false;
  }
}
