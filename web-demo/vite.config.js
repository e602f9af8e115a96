import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';
import { withoutRelaxed } from './src/without-relaxed.js';

// `dpr serve` on its usual port answers the API while `npm run dev` serves the page.
const server = process.env.DPR_URL ?? 'http://127.0.0.1:7878';

// `cargo xtask demo` serves a page before the modules for WebGPU and relaxed SIMD are compiled: of what the package is
// packed of, with a stand-in for the WebGPU module and the plain CPU module in place of the one for relaxed SIMD.
const isEarly = process.env.DPR_EARLY === '1';
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const early = {
  alias: [
    { find: 'dpr-web', replacement: here('../wasm/npm/dist/index.js') },
    { find: /^.*\/wasm\/webgpu\/dpr_wasm\.js$/, replacement: here('src/no-webgpu.js') },
  ],
  plugin: {
    name: 'dpr-early-page',
    enforce: 'pre',
    transform: (code, id) => (/\/dist\/worker\/spawn\.js$/.test(id) ? withoutRelaxed(code) : undefined),
    transformIndexHtml: () => [{ tag: 'meta', attrs: { name: 'dpr-webgpu', content: 'building' }, injectTo: 'head' }],
  },
};

export default defineConfig({
  // Relative, so that the built page also works under a path.
  base: './',
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  plugins: isEarly ? [early.plugin] : [],
  resolve: { alias: isEarly ? early.alias : [] },
  // Pre-bundling would move the package's code away from its workers.
  optimizeDeps: { exclude: ['dpr-web'] },
  server: { proxy: { '/v1': server } },
});
