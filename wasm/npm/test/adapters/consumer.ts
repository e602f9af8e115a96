// A page's and a server's use of every entry: compiled, never run.
import { SearchClient, typeahead, type ClientEvents, type ExpectedIndex } from 'dpr-web';
import { dprEmbedding } from 'dpr-web/ai';
import 'dpr-web/element';
import { DprRetriever } from 'dpr-web/langchain';
import { DprRetriever as DprIndexRetriever } from 'dpr-web/llamaindex';
import { LocalSearch } from 'dpr-web/local';
import { connect, loadEncoder } from 'dpr-web/node';
import { SearchProvider, useSearch, useSuspenseSearch } from 'dpr-web/react';
import { keepOffline } from 'dpr-web/service-worker';
import { createSearch, setSearchClient } from 'dpr-web/svelte';
import { FakeClient, FakeEncoder } from 'dpr-web/testing';
import { dprWeb } from 'dpr-web/vite';
import { createSearch as searchPlugin, useSearch as searchOfVue } from 'dpr-web/vue';
import { embed } from 'ai';
import { createElement } from 'react';
import { defineConfig } from 'vite';
import { createApp } from 'vue';

const client = new FakeClient({ hits: ['a text', { title: 'Title', text: 'another' }], delay: (question) => question.length });
const onRequest = ({ detail }: ClientEvents['request']): string => detail.request.url;
client.addEventListener('request', onRequest);
client.removeEventListener('request', onRequest);
client.removeEventListener('request', { handleEvent: ({ type }) => type }, { capture: true });
typeahead(client, { k: 3 }).subscribe(({ status, result }) => `${status} ${result?.hits.length}`);

export function Search({ question }: { question: string }): string {
  const { hits, flush, isStale } = useSearch(question, { k: 3, debounce: 200, filter: { titles: ['Title'] } });
  flush();
  return `${isStale} ${hits[0]?.text} ${useSuspenseSearch(question).timings.tookMs}`;
}
createElement(SearchProvider, { client }, createElement(Search, { question: 'who' }));
createElement(SearchProvider, { url: '/', options: { device: 'cpu', onProgress: ({ status }) => status } });

createApp({}).use(searchPlugin({ url: '/', options: { retry: 0 } }));
export const text: string | undefined = searchOfVue(() => 'who', { k: 2 }).hits.value[0]?.text;
createSearch(setSearchClient('/'), { k: 1 }).subscribe(({ hits }) => hits[0]?.id);

const element = document.createElement('dpr-search');
element.client = client;
element.addEventListener('dpr-select', ({ detail: { id, metadata } }) => `${id} ${metadata?.['year']}`);

export async function server(): Promise<void> {
  const ready = await connect('https://search.example.org/', { engine: 'inline', cacheDirectory: '.dpr' });
  const [document] = await new DprRetriever({ client: ready, k: 3 }).invoke('who', { signal: AbortSignal.timeout(1000) });
  const [node] = await new DprIndexRetriever({ client }).retrieve('who');
  const encoder = await loadEncoder(new URL('file:///model/manifest.json'), { dtype: 'f32' });
  const { embedding } = await embed({ model: dprEmbedding(encoder), value: 'who' });
  dprEmbedding(new FakeEncoder());
  console.log(document?.metadata.title, node?.score, embedding.length);
}
export async function local(): Promise<string | undefined> {
  const search = await LocalSearch.open('/dpr/dpr-static.json', { expect: { index: '9d31', fingerprint: '53aa' }, device: 'cpu' });
  const { hits, timings, requests } = await search.search('who', { k: 3, signal: AbortSignal.timeout(1000) });
  search.dispose();
  return `${hits[0]?.text} ${timings.tookMs} ${requests.length}`;
}
export async function answers(): Promise<number> {
  const expect: ExpectedIndex = { index: '9d31', fingerprint: '53aa' };
  const answering = SearchClient.create('/dpr/dpr-static.json', { privacy: 'local', expect });
  const { requests, privacy } = await answering.answer('who');
  console.log(privacy?.mode, privacy?.sees);
  return requests?.length ?? 0;
}
keepOffline({ server: null, assets: [] });
keepOffline({ assets: ['/a.js'], pages: ['/'], dtype: 'q8' }).fetch({ request: new Request('/a.js'), respondWith: () => undefined });
export default defineConfig({ plugins: [dprWeb({ prefetch: true })] });
