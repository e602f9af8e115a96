export default defineNuxtConfig({
  compatibilityDate: '2026-01-01',
  telemetry: false,
  app: { head: { title: 'dpr-web', link: [{ rel: 'icon', href: 'data:,' }] } },
});
