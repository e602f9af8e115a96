import { createApp } from 'vue';
import { createSearch } from 'dpr-web/vue';
import Search from './Search.vue';

createApp(Search).use(createSearch({ url: '/' })).mount('#main');
