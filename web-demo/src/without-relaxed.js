/** Returns the source of `worker/spawn.js` with the plain CPU module in place of the one for relaxed SIMD. */
export const withoutRelaxed = (code) => code.replaceAll('wasm/relaxed/', 'wasm/cpu/');
