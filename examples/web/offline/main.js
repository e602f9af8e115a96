import { SearchClient, typeahead } from 'dpr-web';

const question = document.getElementById('question');
const state = document.getElementById('state');
const list = document.getElementById('hits');

// A folder that `dpr index export-static` writes. Nothing of a question leaves the page, and no server is asked.
const client = SearchClient.create('/dpr/dpr-static.json', { privacy: 'local', device: 'cpu' });
const live = typeahead(client, { k: 5, debounce: 200 });

client.addEventListener('progress', ({ detail }) => {
  if (detail.status === 'progress') state.textContent = `${detail.file}: ${Math.round((100 * detail.loaded) / detail.total)} %`;
});
client.addEventListener('statechange', () => {
  if (client.state === 'ready') state.textContent = 'Everything is here: the page works without a network from now on.';
});
question.addEventListener('input', () => live.input(question.value));
document.getElementById('search').addEventListener('submit', (event) => {
  event.preventDefault();
  live.flush();
});
live.subscribe(({ status, result, error }) => {
  list.setAttribute('aria-busy', String(status === 'waiting' || status === 'searching'));
  if (status === 'failed') state.textContent = error.message;
  if (status !== 'done' || !result) return;
  state.textContent = `${result.hits.length} passages; the host saw ${result.privacy.sees}`;
  list.replaceChildren(...result.hits.map(item));
});

client.ready.catch((error) => (state.textContent = error.message));
// The service worker keeps the files of a build, which `npm run dev` does not make.
if (import.meta.env.PROD) await navigator.serviceWorker?.register('/service-worker.js', { type: 'module' });

/** A passage; its text never becomes markup. */
function item({ title, text }) {
  const entry = document.createElement('li');
  const name = document.createElement('strong');
  entry.dir = 'auto';
  name.textContent = title;
  entry.append(name, ` ${text}`);
  return entry;
}
