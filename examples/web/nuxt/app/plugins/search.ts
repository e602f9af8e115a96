import { createSearch } from 'dpr-web/vue';

/** One client for all components. On a server it loads nothing. */
export default defineNuxtPlugin(({ vueApp }) => {
  vueApp.use(createSearch({ url: '/' }));
});
