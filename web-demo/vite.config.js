import { defineConfig } from 'vite';

// `dpr serve` on its usual port answers the API while `npm run dev` serves the page.
const server = process.env.DPR_URL ?? 'http://127.0.0.1:7878';

export default defineConfig({
  // Relative, so that the built page also works under a path.
  base: './',
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  // Pre-bundling would move the package's code away from its workers.
  optimizeDeps: { exclude: ['dpr-web'] },
  server: { proxy: { '/v1': server } },
});
