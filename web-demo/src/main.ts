import { announceWebGpu, possible } from './arrival.js';
import { Connection } from './connection.js';
import { byId, make } from './dom.js';
import { count } from './format.js';
import { ResultList } from './results.js';
import { SentPanel } from './sent-panel.js';
import { settingsControls, type Settings } from './settings.js';
import { StatusLine } from './status.js';

const EXAMPLES = [
  'who won super bowl 50',
  'why is pure oxygen dangerous for divers',
  'how did the plague travel to Europe',
  'what made oil so expensive in the seventies',
  'how do plants turn light into sugar',
];
const K = 10;

const question = byId<HTMLInputElement>('question');
const status = new StatusLine();
const results = new ResultList(question);
const sent = new SentPanel();
const connection = new Connection((event) => status.progress(event));
let settings: Settings = settingsControls((next) => {
  settings = next;
  void connect();
});
let state: 'loading' | 'ready' | 'failed' = 'loading';
let running: AbortController | undefined;

async function connect(): Promise<void> {
  // A new object: whatever still runs for an older one is ignored.
  const mine = (settings = { ...settings });
  state = 'loading';
  status.reset();
  try {
    const { model } = await connection.open(possible(mine));
    if (mine !== settings) return;
    state = 'ready';
    byId('dim').textContent = count(model.dim);
    byId('model-name').textContent = `Model: ${model.name}.`;
  } catch (error) {
    if (mine !== settings) return;
    state = 'failed';
    status.down();
    status.fail(error, 'Load again', () => void connect());
  }
}

async function search(): Promise<void> {
  const text = question.value.trim();
  if (text === '') {
    question.focus();
    return;
  }
  running?.abort();
  const mine = (running = new AbortController());
  // Asking again is also a way to say «try again».
  if (state === 'failed') void connect();
  if (state === 'loading') status.queued();
  else status.clearError();
  // A fast search needs no word; a slow one should not look like none.
  const slow = setTimeout(() => {
    if (state === 'ready') status.searching(true);
  }, 150);
  results.busy = true;
  try {
    const result = await connection.search(text, { k: K, signal: mine.signal });
    if (mine.signal.aborted) return;
    sent.add(result.request);
    results.show(result.hits, result.timings);
    results.reveal();
  } catch (error) {
    // Replaced by a newer search, or the loading failed, which `connect` reports.
    if (mine.signal.aborted || state === 'failed') return;
    status.fail(error, 'Search again', () => void search());
  } finally {
    clearTimeout(slow);
    if (running === mine) {
      results.busy = false;
      if (state === 'ready') status.searching(false);
    }
  }
}

async function describeCorpus(): Promise<void> {
  try {
    const answer = await fetch(new URL('v1/index', document.baseURI), { credentials: 'omit', referrerPolicy: 'no-referrer' });
    const index = (await answer.json()) as { count: number };
    byId('corpus').textContent = ` among ${count(index.count)} paragraphs`;
  } catch {
    // A nicety; the page says nothing about a number it does not know.
  }
}

// On a touch screen the focus would bring up the keyboard over the page.
if (matchMedia('(pointer: fine)').matches) question.focus({ preventScroll: true });
byId('search-form').addEventListener('submit', (event) => {
  event.preventDefault();
  void search();
});
byId('examples').append(
  ...EXAMPLES.map((text) => {
    const button = make('button', '', text);
    button.type = 'button';
    button.addEventListener('click', () => {
      question.value = text;
      void search();
    });
    return button;
  }),
);
question.addEventListener('keydown', (event) => {
  if (event.key === 'ArrowDown') {
    event.preventDefault();
    results.focusFirst();
  }
});
document.addEventListener('keydown', (event) => {
  const typing = event.target instanceof HTMLElement && event.target.matches('input[type=search], select, textarea');
  if (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  question.focus();
  question.select();
});

void connect();
void describeCorpus();
announceWebGpu();
