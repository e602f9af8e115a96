import assert from 'node:assert/strict';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import esbuild from 'esbuild';
import { FakeClient } from 'dpr-web/testing';
import { temporaryFolder } from '../stand-in.mjs';
import { until, withDocument, withServer } from './dom.mjs';

const PACKAGE = fileURLToPath(new URL('../..', import.meta.url));
/** The packages of each major release that is supported. */
const VERSIONS = { 4: 'svelte4', 5: 'svelte' };
const DOM = ['Node', 'Element', 'HTMLElement', 'SVGElement', 'Text', 'Comment', 'DocumentFragment', 'HTMLInputElement', 'HTMLMediaElement', 'ShadowRoot', 'getComputedStyle', 'requestAnimationFrame', 'cancelAnimationFrame', 'customElements', 'CSS', 'MutationObserver'];

const SEARCH = `
<script>
  import { createSearch, getSearchClient } from 'dpr-web/svelte';
  const search = createSearch(getSearchClient(), { k: 3, debounce: 1 });
  const { question } = search;
  export let start = '';
  $question = start;
</script>
<input bind:value={$question} />
<button on:click={() => search.flush()}>now</button>
<p>{$search.status} {$search.error?.message ?? ''}{#each $search.hits as hit (hit.id)}<b>{hit.text}</b>{/each}</p>
`;
const PAGE = `
<script>
  import { setSearchClient } from 'dpr-web/svelte';
  import Search from './search.svelte';
  export let client;
  export let options = undefined;
  export let start = '';
  setSearchClient(client, options);
</script>
<Search {start} />
`;

/** The components above, compiled by this version of Svelte for a browser or a server. */
async function compiled(t, version, generate) {
  const { compile } = await import(`${VERSIONS[version]}/compiler`);
  const folder = temporaryFolder(t);
  const components = { 'page.svelte': PAGE, 'search.svelte': SEARCH };
  const target = version === '4' && generate !== 'server' ? 'dom' : version === '4' ? 'ssr' : generate;
  const isServer = generate === 'server';
  const start = isServer
    ? version === '5' ? "export { render } from 'svelte/server';" : 'export const render = (page, { props }) => { const { html } = page.render(props); return { body: html }; };'
    : version === '5' ? "export { mount, unmount } from 'svelte';" : 'export const mount = (Page, options) => new Page(options); export const unmount = (page) => page.$destroy();';
  const outfile = path.join(folder, 'page.mjs');
  await esbuild.build({
    stdin: { contents: `export { default as Page } from './page.svelte'; ${start}`, resolveDir: PACKAGE, sourcefile: 'entry.js' },
    absWorkingDir: PACKAGE,
    outfile,
    bundle: true,
    format: 'esm',
    platform: isServer ? 'node' : 'browser',
    conditions: isServer ? ['svelte', 'node'] : ['svelte', 'browser'],
    mainFields: ['svelte', 'module', 'main'],
    alias: version === '4' ? { svelte: 'svelte4' } : {},
    external: ['*/dpr_wasm.js'],
    define: { 'import.meta.url': '"file:///dist/"' },
    logLevel: 'error',
    plugins: [{
      name: 'svelte',
      setup(build) {
        build.onResolve({ filter: /\.svelte$/ }, ({ path: name }) => ({ path: name.replace('./', ''), namespace: 'svelte' }));
        build.onLoad({ filter: /.*/, namespace: 'svelte' }, ({ path: name }) => ({ contents: compile(components[name], { generate: target, filename: name }).js.code, resolveDir: PACKAGE }));
      },
    }],
  });
  return import(pathToFileURL(outfile).href);
}

for (const version of Object.keys(VERSIONS)) {
  const page = async (t, props) => {
    let mounted;
    const document = withDocument(t, DOM, () => mounted && unmountPage());
    const { Page, mount, unmount } = await compiled(t, version, 'client');
    const target = document.body.appendChild(document.createElement('main'));
    mounted = mount(Page, { target, props });
    const unmountPage = () => {
      unmount(mounted);
      mounted = undefined;
    };
    const input = target.querySelector('input');
    return {
      unmount: unmountPage,
      text: () => target.querySelector('p').textContent.trim(),
      flush: () => target.querySelector('button').click(),
      type(text) {
        input.value = text;
        input.dispatchEvent(new window.Event('input', { bubbles: true }));
      },
    };
  };

  test(`Svelte ${version}: a search follows what is typed, and an older answer never comes after a newer one`, async (t) => {
    const client = new FakeClient({ hits: (question) => [`about ${question}`], delay: (question) => (question === 'slow' ? 40 : 1) });
    const { type, text } = await page(t, { client });
    type('slow');
    await until(() => client.searches.length === 1);
    type('fast');
    await until(() => text() === 'done about fast');
    assert.equal(client.searches[0].options.signal.aborted, true);
    assert.equal(client.searches[1].options.k, 3);
  });

  test(`Svelte ${version}: an error is in the state, \`flush\` tries again, and what goes gives a search up`, async (t) => {
    const client = new FakeClient({ error: new Error('no answer') });
    const { text, flush, unmount } = await page(t, { client, start: 'who' });
    await until(() => text() === 'failed no answer');
    client.script = { delay: 60_000 };
    flush();
    await until(() => client.searches.length === 2);
    unmount();
    await until(() => client.searches[1].options.signal.aborted);
    assert.equal(client.state, 'ready', 'the client was given: it is not disposed');
  });

  test(`Svelte ${version}: the client of an address goes with its component`, async (t) => {
    const { workers, options } = withServer(t);
    const { text, unmount } = await page(t, { client: 'https://server.test/', options, start: 'who' });
    await until(() => text() === 'done a passage');
    unmount();
    await until(() => workers.length === 1 && workers[0].terminated);
  });

  test(`Svelte ${version}: a server renders it, with a relative address, and nothing is loaded`, async (t) => {
    const { calls, options } = withServer(t);
    const { Page, render } = await compiled(t, version, 'server');
    const { body } = render(Page, { props: { client: '/search/', options, start: 'who' } });
    assert.match(body, /<p>\s*idle/);
    // With a client of the application's own too.
    const client = new FakeClient({ hits: ['one'] });
    assert.match(render(Page, { props: { client, start: 'who' } }).body, /<p>\s*idle/);
    // Longer than the pause that a search waits for.
    await new Promise((resolve) => setTimeout(resolve, 10));
    assert.deepEqual([calls.length, client.state, client.searches], [0, 'idle', []]);
  });
}

test('Svelte: nothing is searched while nobody is subscribed', async (t) => {
  withDocument(t, DOM);
  const { createSearch } = await import('dpr-web/svelte');
  const client = new FakeClient({ hits: ['one'] });
  const search = createSearch(client, { debounce: 1 });
  search.question.set('who');
  await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(client.searches.length, 0);
  let state;
  const leave = search.subscribe((next) => (state = next));
  await until(() => state.status === 'done');
  assert.deepEqual(state.hits.map(({ text }) => text), ['one']);
  const texts = [];
  search.question.subscribe((text) => texts.push(text))();
  search.question.update((text) => `${text} won`);
  leave();
  assert.deepEqual(texts, ['who']);
  await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(client.searches.length, 1);
});
