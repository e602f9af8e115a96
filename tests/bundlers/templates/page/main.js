import { SearchClient } from 'dpr-web';
import { options } from './options.js';
import { start } from './search-page.js';

start(SearchClient, options);
