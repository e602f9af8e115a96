import { SearchClient, typeahead } from './dpr-web/dist/cdn/index.js';

const question = document.getElementById('question');
const state = document.getElementById('state');
const list = document.getElementById('hits');

// The server that the page came from. Another one: its address here, and the page's in `dpr serve --allow-origin`.
const client = SearchClient.create(new URL('.', document.baseURI));
const live = typeahead(client, { k: 5, debounce: 200 });

question.addEventListener('focus', () => client.preload(), { once: true });
question.addEventListener('input', () => live.input(question.value));
document.getElementById('search').addEventListener('submit', (event) => {
  event.preventDefault();
  live.flush();
});
live.subscribe(({ status, result, error }) => {
  list.setAttribute('aria-busy', String(status === 'waiting' || status === 'searching'));
  if (status === 'failed') state.textContent = error.message;
  if (status !== 'done' || !result) return;
  state.textContent = `${result.hits.length} passages`;
  list.replaceChildren(...result.hits.map(item));
});

/** A passage; its text never becomes markup. */
function item({ title, text }) {
  const entry = document.createElement('li');
  const name = document.createElement('strong');
  entry.dir = 'auto';
  name.textContent = title;
  entry.append(name, ` ${text}`);
  return entry;
}
