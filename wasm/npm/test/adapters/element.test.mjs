import assert from 'node:assert/strict';
import test from 'node:test';
import { Window } from 'happy-dom';
import { until, withServer } from './dom.mjs';

// Before anything of the package: its clients have to be event targets of this window.
const window = new Window({ url: 'https://page.test/' });
for (const name of ['document', 'HTMLElement', 'customElements', 'CSSStyleSheet', 'EventTarget', 'Event', 'CustomEvent']) globalThis[name] = window[name];
const internals = { labels: [], submitted: [], setFormValue: (value) => internals.submitted.push(value) };
// happy-dom knows no form-associated elements: tests/browser sees to those.
window.HTMLElement.prototype.attachInternals = () => internals;
const { FakeClient } = await import('dpr-web/testing');
await import('dpr-web/element');

const HITS = [
  { id: 'a', title: 'First', text: 'one' },
  { id: 'b', title: '', text: '<img src=x onerror=alert(1)>' },
  { id: 'c', title: 'Third', text: 'three' },
];

/** A `<dpr-search>` in the document. */
function element(t, { attributes = { debounce: '1' }, client = new FakeClient({ hits: HITS }) } = {}) {
  const submitted = (internals.submitted = []);
  const search = document.createElement('dpr-search');
  for (const [name, value] of Object.entries(attributes)) search.setAttribute(name, value);
  if (client) search.client = client;
  t.after(() => search.remove());
  document.body.append(search);
  const [input, list, status] = ['input', 'list', 'status'].map((part) => search.shadowRoot.querySelector(`[part=${part}]`));
  const states = [];
  search.addEventListener('dpr-state', ({ detail }) => states.push(detail));
  input.focus();
  return {
    search, client, input, list, status, states, submitted,
    options: () => [...list.children],
    type: (text) => {
      input.value = text;
      input.dispatchEvent(new window.Event('input', { bubbles: true }));
    },
    /** Returns whether the key is left to the page. */
    press: (key, more = {}) => input.dispatchEvent(new window.KeyboardEvent('keydown', { key, cancelable: true, ...more })),
    found: () => until(() => states.at(-1)?.status === 'done'),
  };
}

test('what is typed is searched, and its passages are options of a listbox, as text', async (t) => {
  const { type, found, client, input, list, status, options } = element(t, { attributes: { debounce: '1', k: '2', minlength: '2' } });
  assert.deepEqual(['role', 'aria-autocomplete', 'aria-controls', 'aria-expanded', 'aria-label'].map((name) => input.getAttribute(name)), ['combobox', 'list', list.id, 'false', 'Search']);
  assert.equal(list.getAttribute('role'), 'listbox');
  assert.equal(status.getAttribute('role'), 'status');
  type('w');
  assert.equal(client.searches.length, 0);
  type('who');
  await found();
  assert.equal(client.searches[0].options.k, 2);
  assert.deepEqual(options().map((option) => [option.getAttribute('role'), option.textContent, option.getAttribute('dir')]), [['option', 'Firstone', 'auto'], ['option', HITS[1].text, 'auto']]);
  assert.equal(list.querySelector('img'), null);
  assert.equal(input.getAttribute('aria-expanded'), 'true');
  assert.equal(list.hidden, false);
  assert.equal(status.textContent, '2 found');
});

test('down and up go around the list by way of the field, and Escape closes it and then empties the field', async (t) => {
  const { type, found, input, list, press, options, search } = element(t);
  type('who');
  await found();
  const active = () => input.getAttribute('aria-activedescendant');
  const seen = [];
  for (const key of ['ArrowDown', 'ArrowDown', 'ArrowUp', 'ArrowUp', 'ArrowUp', 'ArrowDown', 'ArrowDown']) {
    press(key);
    seen.push(active());
  }
  assert.deepEqual(seen, ['option-0', 'option-1', 'option-0', '', 'option-2', '', 'option-0']);
  assert.deepEqual(options().map((option) => option.getAttribute('aria-selected')), ['true', 'false', 'false']);
  assert.equal(options()[0].id, 'option-0');
  press('ArrowDown', { isComposing: true });
  assert.equal(active(), 'option-0', 'a key of an input method');
  press('Escape');
  assert.deepEqual([list.hidden, input.getAttribute('aria-expanded'), active(), search.question], [true, 'false', '', 'who']);
  press('ArrowDown');
  assert.deepEqual([list.hidden, active()], [false, 'option-0']);
  press('Escape');
  press('Escape');
  assert.equal(search.question, '');
  assert.equal(options().length, 0);
});

test('Escape in an empty field is left to the page, as to a dialog around it', (t) => {
  const { press, type, search } = element(t, { attributes: { debounce: '60000' } });
  assert.equal(press('Escape'), true);
  type('who');
  assert.deepEqual([press('Escape'), search.question], [false, '']);
  assert.equal(press('Escape'), true);
});

test('Escape while an answer is under way keeps the list closed when it comes; the next key or Enter opens it', async (t) => {
  const { type, found, press, list, client, states } = element(t);
  type('who');
  await found();
  const pending = async (text) => {
    states.length = 0;
    type(text);
    await until(() => states.at(-1)?.status === 'searching');
    assert.equal(list.hidden, false);
    press('Escape');
    assert.equal(list.hidden, true);
  };
  client.script.delay = 20;
  await pending('whom');
  await found();
  assert.equal(list.hidden, true);
  await pending('whose');
  press('Enter');
  await found();
  assert.equal(list.hidden, false);
  press('Escape');
  states.length = 0;
  type('what');
  await found();
  assert.equal(list.hidden, false);
});

test('Enter takes the active passage, whose id is the value in a form; typing takes it back', async (t) => {
  const { type, found, press, search, submitted, list, input } = element(t);
  const chosen = [];
  search.addEventListener('dpr-select', ({ detail }) => chosen.push(detail.id));
  type('who');
  await found();
  press('ArrowDown');
  press('Enter');
  assert.deepEqual([chosen, search.value, submitted.at(-1), input.value, list.hidden], [['a'], 'a', 'a', 'First', true]);
  type('whom');
  assert.deepEqual([search.value, submitted.at(-1)], ['', null]);
  // Never the words.
  assert.ok(!submitted.includes('who') && !submitted.includes('whom'));
});

test('a click takes a passage, and a page may keep it from being taken', async (t) => {
  const { type, found, search, list, options } = element(t);
  search.addEventListener('dpr-select', (event) => event.detail.id === 'a' && event.preventDefault());
  type('who');
  await found();
  options()[0].firstElementChild.click();
  assert.deepEqual([search.value, list.hidden, search.question], ['', false, 'who']);
  options()[2].click();
  assert.deepEqual([search.value, search.question], ['c', 'Third']);
});

test('Enter searches at once, a failure is said, and Enter tries again', async (t) => {
  const client = new FakeClient({ error: new Error('no answer') });
  const { type, press, status, states } = element(t, { attributes: { debounce: '60000' }, client });
  type('who');
  press('Enter');
  await until(() => states.at(-1)?.status === 'failed');
  assert.equal(status.textContent, 'no answer');
  client.script = { hits: [] };
  press('Enter');
  await until(() => states.at(-1)?.status === 'done');
  assert.equal(status.textContent, '0 found');
});

test('an answer that comes when the field has lost the focus opens nothing', async (t) => {
  const { type, found, input, list } = element(t);
  type('who');
  input.blur();
  await found();
  assert.equal(list.hidden, true);
});

test('the client that it makes itself is disposed with it, not when it is moved', async (t) => {
  const { workers, options } = withServer(t);
  const { search } = element(t, { client: null, attributes: {} });
  search.options = options;
  search.setAttribute('src', 'https://server.test/');
  const { client } = search;
  await client.ready;
  document.body.append(document.createElement('main'));
  document.querySelector('main').append(search);
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(client.state, 'ready');
  assert.equal(search.client, client);
  search.remove();
  await until(() => client.state === 'disposed');
  assert.deepEqual(workers.map(({ terminated }) => terminated), [true]);
});

test('a client of the page is not disposed, and attributes that change apply', async (t) => {
  const { search, client, type, found, input, states } = element(t);
  type('who');
  await found();
  search.setAttribute('k', '1');
  search.setAttribute('label', 'Frage');
  assert.equal(input.getAttribute('aria-label'), 'Frage');
  states.length = 0;
  type('what');
  await found();
  assert.equal(client.searches.at(-1).options.k, 1);
  search.remove();
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(client.state, 'ready');
});

test('a label or a placeholder ends no search, nor does an attribute that is set to what it was; another number does', async (t) => {
  const { search, client, type } = element(t, { attributes: { debounce: '1', k: '2' } });
  client.script.delay = 60_000;
  type('who');
  await until(() => client.searches.length === 1);
  const { signal } = client.searches[0].options;
  for (const [name, value] of Object.entries({ label: 'Frage', placeholder: 'Wer?', k: '2', debounce: '1' })) {
    search.setAttribute(name, value);
    assert.equal(signal.aborted, false, name);
  }
  search.setAttribute('k', '3');
  assert.equal(signal.aborted, true);
});

/** Sets a filter while the second search is under way, which is to be given up, and searches a third time. */
async function setWhileSearching({ search, client, type, found, states }, filter) {
  client.script.delay = 60_000;
  type('what');
  await until(() => client.searches.length === 2);
  search.filter = filter;
  assert.equal(client.searches[1].options.signal.aborted, true);
  client.script.delay = 0;
  states.length = 0;
  type('where');
  await found();
}

test('a filter that is set after the first key holds for the next search, and ends the one under way', async (t) => {
  const made = element(t);
  const { search, client, type, found } = made;
  type('who');
  await found();
  assert.equal(client.searches.at(-1).options.filter, undefined);
  const [first, second] = [{ titles: ['First'] }, { titles: ['Third'] }];
  search.filter = first;
  assert.equal(search.filter, first);
  await setWhileSearching(made, second);
  assert.deepEqual(client.searches.slice(1).map(({ options }) => options.filter), [first, second]);
});

test('an equal filter ends no search, and one that was changed and is set again does', async (t) => {
  const made = element(t);
  const { search, client, type, found } = made;
  search.filter = { titles: ['First'] };
  client.script.delay = 20;
  type('who');
  await until(() => client.searches.length === 1);
  const { signal } = client.searches[0].options;
  const filter = { titles: ['First'] };
  search.filter = filter;
  assert.deepEqual([signal.aborted, search.filter === filter], [false, true]);
  await found();
  filter.titles.push('Third');
  await setWhileSearching(made, filter);
  assert.deepEqual(client.searches[2].options.filter, { titles: ['First', 'Third'] });
});
