/** A WebAssembly module in base64, whose one function is `i32x4.relaxed_dot_i8x16_i7x16_add_s`. */
const PRODUCT = 'AGFzbQEAAAABCAFgA3t7ewF7AwIBAAoNAQsAIAAgASAC/ZMCCw==';

/** Returns whether the engine has relaxed SIMD. */
export function hasRelaxedSimd(): boolean {
  return WebAssembly.validate(Uint8Array.from(atob(PRODUCT), (byte) => byte.charCodeAt(0)));
}
