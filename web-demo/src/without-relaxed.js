/** The package's `worker/spawn.js`, which tells workers where the modules are, until that for relaxed SIMD is built. */
export const withoutRelaxed = (code) => code.replaceAll('wasm/relaxed/', 'wasm/cpu/');
