import { SearchClient } from './dpr-web/dist/cdn/index.js';
import { options } from './options.js';
import { start } from './search-page.js';

start(SearchClient, options);
