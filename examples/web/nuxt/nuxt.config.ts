// `dpr serve` on its usual port answers the searches; the page and the server then have one origin.
const server = process.env.DPR_URL ?? 'http://127.0.0.1:7878';

export default defineNuxtConfig({
  compatibilityDate: '2026-01-01',
  app: {
    head: {
      title: 'dpr-web and Nuxt',
      // Before Nuxt's own scripts.
      meta: [{ name: 'referrer', content: 'no-referrer', tagPriority: -10 }],
    },
  },
  routeRules: { '/v1/**': { proxy: `${server}/v1/**` } },
});
