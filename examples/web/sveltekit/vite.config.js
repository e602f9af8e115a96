import adapter from '@sveltejs/adapter-static';
import { sveltekit } from '@sveltejs/kit/vite';
import { defineConfig } from 'vite';

export default defineConfig({
  plugins: [sveltekit({ adapter: adapter() })],
  // `dpr serve` on its usual port answers while `npm run dev` serves the page.
  server: { proxy: { '/v1': process.env.DPR_URL ?? 'http://127.0.0.1:7878' } },
});
