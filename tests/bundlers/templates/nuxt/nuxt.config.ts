export default defineNuxtConfig({
  compatibilityDate: '2026-01-01',
  telemetry: false,
  app: {
    head: {
      title: 'dpr-web',
      // Before Nuxt's own scripts.
      meta: [{ name: 'referrer', content: 'no-referrer', tagPriority: -10 }],
      link: [{ rel: 'icon', href: 'data:,' }],
    },
  },
});
