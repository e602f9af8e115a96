// biome-ignore-all lint/correctness/noComponentHookFactories: each version of React has components of its own
import assert from 'node:assert/strict';
import test from 'node:test';
import { FakeClient } from 'dpr-web/testing';
import { until, withDocument, withServer } from './dom.mjs';
import { reactBuild, VERSIONS } from './react-builds.mjs';

for (const version of Object.keys(VERSIONS)) {
  /** Renders into a document; `render` shows another element there. */
  const page = async (t) => {
    const document = withDocument(t, [], async () => {
      root.unmount();
      // React tidies up later.
      await new Promise((resolve) => setTimeout(resolve, 20));
    });
    const build = await reactBuild(t, version);
    assert.equal(build.React.version.split('.')[0], version);
    const container = document.body.appendChild(document.createElement('main'));
    const errors = [];
    const root = build.createRoot(container, { onUncaughtError: (error) => errors.push(error), onRecoverableError: () => {} });
    const h = build.React.createElement;
    const text = () => container.textContent;
    return { ...build, h, root, container, text, errors, document };
  };

  test(`React ${version}: a search shows hits, and an older answer never comes after a newer one`, async (t) => {
    const { h, root, text, SearchProvider, useSearch } = await page(t);
    const client = new FakeClient({ hits: (question) => [`about ${question}`], delay: (question) => (question === 'slow' ? 40 : 1) });
    const seen = [];
    function Search({ question }) {
      const { hits, status, isStale } = useSearch(question, { k: 3, debounce: 1 });
      seen.push(hits[0]?.text);
      return h('p', null, `${status} ${isStale} ${hits.map((hit) => hit.text)}`);
    }
    const show = (question) => root.render(h(SearchProvider, { client }, h(Search, { question })));
    show('slow');
    await until(() => client.searches.length === 1);
    show('fast');
    await until(() => text() === 'done false about fast');
    assert.equal(client.searches[0].options.signal.aborted, true);
    assert.equal(client.searches[1].options.k, 3);
    assert.ok(!seen.includes('about slow'));
    show('next');
    await until(() => text() === 'waiting true about fast' || text() === 'searching true about fast');
    await until(() => text() === 'done false about next');
    // The same options written again are the same options.
    show('next');
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(client.searches.length, 3);
  });

  test(`React ${version}: an error is in the state, \`flush\` tries again, and unmounting gives a search up`, async (t) => {
    const { h, root, text, SearchProvider, useSearch } = await page(t);
    const client = new FakeClient({ error: new Error('no answer'), hits: ['one'] });
    let flush;
    function Search() {
      const state = useSearch('who', { debounce: 1 });
      flush = state.flush;
      return h('p', null, `${state.status} ${state.error?.message} ${state.hits.length}`);
    }
    root.render(h(SearchProvider, { client }, h(Search)));
    await until(() => text() === 'failed no answer 0');
    client.script = { delay: 60_000 };
    flush();
    await until(() => client.searches.length === 2);
    root.unmount();
    await until(() => client.searches[1].options.signal.aborted);
    assert.equal(client.state, 'ready', 'the client was given: it is not disposed');
  });

  test(`React ${version}: options reach the search as they were given, also numbers that JSON has not`, async (t) => {
    const { h, root, text, SearchProvider, useSearch } = await page(t);
    const client = new FakeClient({ hits: ['one'] });
    const Search = ({ k }) => h('p', null, useSearch('who', { debounce: 1, timeout: Infinity, k }).status);
    const show = (k) => root.render(h(SearchProvider, { client }, h(Search, { k })));
    show(3);
    await until(() => text() === 'done');
    show(4);
    await until(() => client.searches.length === 2 && text() === 'done');
    assert.deepEqual(client.searches.map(({ options: { timeout, k } }) => [timeout, k]), [[Infinity, 3], [Infinity, 4]]);
  });

  test(`React ${version}: StrictMode leaves one client and one worker, and unmounting none`, async (t) => {
    const { h, root, text, React, SearchProvider, useSearch, useSearchClient } = await page(t);
    const { workers, options, calls } = withServer(t);
    const clients = new Set();
    function Search() {
      clients.add(useSearchClient());
      const { hits } = useSearch('who', { debounce: 1 });
      return h('p', null, hits.map((hit) => hit.text));
    }
    root.render(h(React.StrictMode, null, h(SearchProvider, { url: 'https://server.test/', options }, h(Search))));
    await until(() => text() === 'a passage');
    const used = [...clients].filter((client) => client.state !== 'idle');
    assert.deepEqual(used.map((client) => client.state), ['ready']);
    assert.equal(workers.length, 1);
    assert.equal(calls.filter(({ url }) => url.endsWith('/v1/search')).length, 1);
    assert.equal(workers[0].terminated, false);
    root.unmount();
    await until(() => workers[0].terminated);
    assert.equal(used[0].state, 'disposed');
  });

  test(`React ${version}: another address makes another client and disposes the first`, async (t) => {
    const { h, root, SearchProvider, useSearchClient } = await page(t);
    const { options, workers } = withServer(t);
    const clients = [];
    function Search() {
      const client = useSearchClient();
      if (clients.at(-1) !== client) clients.push(client);
      return null;
    }
    const show = (url) => root.render(h(SearchProvider, { url, options }, h(Search)));
    show('https://server.test/');
    await until(() => clients.length === 1);
    await clients[0].ready;
    show('https://server.test/other/');
    await until(() => clients.length === 2 && clients[0].state === 'disposed');
    assert.deepEqual(workers.map(({ terminated }) => terminated), [true]);
    assert.equal(clients[1].state, 'idle');
  });

  // React 18 hides nothing.
  if (version === '19') test(`React ${version}: a page that was hidden for long searches with another client`, async (t) => {
    const { h, root, text, React, SearchProvider, useSearch } = await page(t);
    const { workers, options } = withServer(t);
    const Search = () => h('p', null, useSearch('who', { debounce: 1 }).hits.map((hit) => hit.text));
    const show = (mode) => root.render(h(React.Activity, { mode }, h(SearchProvider, { url: 'https://server.test/', options }, h(Search))));
    show('visible');
    await until(() => text() === 'a passage');
    show('hidden');
    await until(() => workers[0].terminated);
    show('visible');
    await until(() => workers.length === 2 && !workers[1].terminated);
    await until(() => text() === 'a passage');
  });

  test(`React ${version}: more suspended searches at once than answers are kept are each searched once`, async (t) => {
    const { h, root, text, React, SearchProvider, useSuspenseSearch } = await page(t);
    const client = new FakeClient({ hits: (question) => [question], delay: 5 });
    const Passages = ({ question }) => useSuspenseSearch(question).hits.map((hit) => hit.text);
    const questions = Array.from({ length: 30 }, (_, at) => `q${at};`);
    const all = questions.map((question) => h(Passages, { key: question, question }));
    root.render(h(SearchProvider, { client }, h(React.Suspense, { fallback: 'searching' }, all)));
    await until(() => text() === questions.join(''));
    assert.deepEqual(client.searches.map(({ question }) => question).sort(), [...questions].sort());
  });

  test(`React ${version}: a suspended search shows the fallback, the hits, and its error to a boundary that tries again`, async (t) => {
    const { h, root, text, React, SearchProvider, useSuspenseSearch } = await page(t);
    const client = new FakeClient({ hits: (question) => [`about ${question}`], delay: 5 });
    class Boundary extends React.Component {
      state = {};
      static getDerivedStateFromError = (error) => ({ error });
      componentDidMount() {
        this.props.onMount(this);
      }
      render() {
        return this.state.error ? `failed: ${this.state.error.message}` : this.props.children;
      }
    }
    let boundary;
    const Passages = ({ question }) => useSuspenseSearch(question, { k: 2 }).hits.map((hit) => hit.text);
    const onMount = (mounted) => (boundary = mounted);
    const show = (question) =>
      root.render(h(SearchProvider, { client }, h(Boundary, { onMount }, h(React.Suspense, { fallback: 'searching' }, h(Passages, { question })))));
    t.mock.method(console, 'error', () => {});
    show('who');
    await until(() => text() === 'searching');
    await until(() => text() === 'about who');
    show('what');
    await until(() => text() === 'about what');
    show('who');
    await until(() => text() === 'about who');
    assert.deepEqual(client.searches.map(({ question }) => question), ['who', 'what']);
    client.script = { error: new Error('no answer') };
    show('where');
    await until(() => text() === 'failed: no answer');
    assert.equal(client.searches.length, 3);
    client.script = { hits: ['found'] };
    await new Promise((resolve) => setTimeout(resolve, 300));
    boundary.setState({ error: undefined });
    await until(() => text() === 'found');
    assert.deepEqual(client.searches.map(({ question }) => question), ['who', 'what', 'where', 'where']);
  });

  test(`React ${version}: a blank question suspends nothing, finds nothing and is not searched`, async (t) => {
    const { h, root, text, React, SearchProvider, useSuspenseSearch } = await page(t);
    const client = new FakeClient({ hits: ['one'] });
    const Passages = ({ question }) => `${useSuspenseSearch(question).hits.length} found`;
    for (const question of ['', ' \n']) {
      root.render(h(SearchProvider, { client }, h(React.Suspense, { fallback: 'searching' }, h(Passages, { key: question, question }))));
      await until(() => text() === '0 found');
    }
    assert.deepEqual([client.state, client.searches], ['idle', []]);
  });

  test(`React ${version}: an error that nobody was shown is forgotten, and the question searched again`, async (t) => {
    const { h, root, text, React, SearchProvider, useSuspenseSearch } = await page(t);
    const client = new FakeClient({ hits: (question) => [`about ${question}`], delay: 5 });
    const Passages = ({ question }) => useSuspenseSearch(question).hits.map((hit) => hit.text);
    const show = (question) =>
      root.render(h(SearchProvider, { client }, h(React.Suspense, { fallback: 'searching' }, h(Passages, { key: question, question }))));
    client.script.error = (question) => (question === 'where' ? new Error('no answer') : undefined);
    show('where');
    await until(() => client.searches.length === 1);
    // The component goes before its error comes.
    show('what');
    await until(() => text() === 'about what');
    await new Promise((resolve) => setTimeout(resolve, 1200));
    delete client.script.error;
    show('where');
    await until(() => text() === 'about where');
    assert.deepEqual(client.searches.map(({ question }) => question), ['where', 'what', 'where']);
  });

  test(`React ${version}: a server renders it, with a relative address, and nothing is loaded`, async (t) => {
    const { React, renderToString, SearchProvider, useSearch, useSuspenseSearch } = await reactBuild(t, version);
    const { calls, workers, options } = withServer(t);
    const h = React.createElement;
    const Search = () => h('p', null, useSearch('who').status);
    const Passages = () => h('p', null, useSuspenseSearch('who').hits.length);
    const page = h(SearchProvider, { url: '/search/', options }, h(Search), h(React.Suspense, { fallback: 'later' }, h(Passages)));
    const html = renderToString(page);
    assert.match(html, /<p>idle<\/p>.*later/s);
    assert.deepEqual([calls.length, workers.length], [0, 0]);
  });

  test(`React ${version}: what is missing is named`, async (t) => {
    const { React, renderToString, SearchProvider, useSearch } = await reactBuild(t, version);
    const Search = () => useSearch('who').status;
    assert.throws(() => renderToString(React.createElement(Search)), /<SearchProvider>/);
    assert.throws(() => renderToString(React.createElement(SearchProvider, {})), /`client` nor `url`/);
  });
}
