/** A module whose one function adds a product by relaxed SIMD. */
const PRODUCT = 'AGFzbQEAAAABCAFgA3t7ewF7AwIBAAoNAQsAIAAgASAC/ZMCCw==';

/** Whether the engine has relaxed SIMD. */
export function hasRelaxedSimd(): boolean {
  return WebAssembly.validate(Uint8Array.from(atob(PRODUCT), (byte) => byte.charCodeAt(0)));
}
