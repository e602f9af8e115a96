// biome-ignore-all lint/correctness/useHookAtTopLevel: composables of Vue are no hooks of React
import assert from 'node:assert/strict';
import test from 'node:test';
import { FakeClient } from 'dpr-web/testing';
import { Window } from 'happy-dom';
import { until, withServer } from './dom.mjs';

// Before anything of Vue, which looks for a document when it is imported.
const window = new Window({ url: 'https://page.test/' });
for (const name of ['window', 'document', 'Element', 'SVGElement', 'MathMLElement']) globalThis[name] = window[name];
const { createApp, createSSRApp, h, nextTick, ref } = await import('vue');
const { renderToString } = await import('vue/server-renderer');
const { createSearch, useSearch, useSearchClient } = await import('dpr-web/vue');

/** Mounts a component into the document, with the plugin of these options. */
function mount(t, plugin, component) {
  const container = document.body.appendChild(document.createElement('main'));
  const app = createApp(component).use(createSearch(plugin));
  app.mount(container);
  let isMounted = true;
  const unmount = () => {
    if (isMounted) app.unmount();
    isMounted = false;
  };
  t.after(unmount);
  return { unmount, text: () => container.textContent };
}

/** No document until `t` ends. */
function onServer(t) {
  const { document } = globalThis;
  delete globalThis.document;
  t.after(() => {
    globalThis.document = document;
  });
}

test('Vue: a search follows a ref, and an older answer never comes after a newer one', async (t) => {
  const client = new FakeClient({ hits: (question) => [`about ${question}`], delay: (question) => (question === 'slow' ? 40 : 1) });
  const question = ref('slow');
  const options = ref({ k: 3, debounce: 1 });
  const seen = [];
  const { text } = mount(t, { client }, {
    setup() {
      const { hits, status, isStale } = useSearch(question, options);
      return () => {
        seen.push(hits.value[0]?.text);
        return h('p', `${status.value} ${isStale.value} ${hits.value.map((hit) => hit.text)}`);
      };
    },
  });
  await until(() => client.searches.length === 1);
  question.value = 'fast';
  await until(() => text() === 'done false about fast');
  assert.equal(client.searches[0].options.signal.aborted, true);
  assert.ok(!seen.includes('about slow'));
  // The same options written again are the same options; others search again.
  options.value = { k: 3, debounce: 1 };
  await nextTick();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(client.searches.length, 2);
  options.value = { k: 1, debounce: 1 };
  await until(() => client.searches.length === 3);
  assert.equal(client.searches[2].options.k, 1);
});

test('Vue: an error is in the state, `flush` tries again, and unmounting gives a search up', async (t) => {
  const client = new FakeClient({ error: new Error('no answer') });
  let search;
  const { unmount, text } = mount(t, { client }, {
    setup() {
      search = useSearch(() => 'who', { debounce: 1 });
      return () => h('p', `${search.status.value} ${search.error.value?.message}`);
    },
  });
  await until(() => text() === 'failed no answer');
  client.script = { delay: 60_000 };
  search.flush();
  await until(() => client.searches.length === 2);
  unmount();
  assert.equal(client.searches[1].options.signal.aborted, true);
  assert.equal(client.state, 'ready', 'the client was given: it is not disposed');
});

test('Vue: the client of the plugin is one, and goes with the application', async (t) => {
  const { workers, options } = withServer(t);
  const clients = new Set();
  const Search = {
    setup() {
      clients.add(useSearchClient());
      const { hits } = useSearch('who', { debounce: 1 });
      return () => h('p', hits.value.map((hit) => hit.text));
    },
  };
  const { unmount, text } = mount(t, { url: 'https://server.test/', options }, { render: () => [h(Search), h(Search)] });
  await until(() => text() === 'a passagea passage');
  assert.deepEqual([clients.size, workers.length], [1, 1]);
  unmount();
  assert.deepEqual([workers[0].terminated, [...clients][0].state], [true, 'disposed']);
});

test('Vue: a server renders it, with a relative address, and nothing is loaded', async (t) => {
  onServer(t);
  const { calls, options } = withServer(t);
  const Page = {
    setup() {
      const { state } = useSearchClient();
      const { status } = useSearch('who');
      return () => h('p', `${state} ${status.value}`);
    },
  };
  const html = await renderToString(createSSRApp(Page).use(createSearch({ url: '/search/', options })));
  assert.equal(html, '<p>idle idle</p>');
  assert.equal(calls.length, 0);
});

test('Vue: a missing plugin is named', async () => {
  const page = createSSRApp({ setup: () => () => h('p'), created: () => useSearch('who') });
  page.config.warnHandler = () => {};
  await assert.rejects(renderToString(page), /createSearch/);
});
