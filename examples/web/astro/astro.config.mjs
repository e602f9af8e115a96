import { defineConfig } from 'astro/config';

export default defineConfig({
  // `dpr serve` on its usual port answers while `npm run dev` serves the page; `dpr serve --web dist` serves both.
  vite: { server: { proxy: { '/v1': process.env.DPR_URL ?? 'http://127.0.0.1:7878' } } },
});
