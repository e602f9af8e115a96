// A script of re-ranking that is gone, as after a deployment.
import assert from 'node:assert/strict';
import { register } from 'node:module';
import test from 'node:test';
import { withStorage } from './fake-worker.mjs';

const isGone = "export const load = (url, context, next) => { if (url.endsWith('/reading/reading.js')) throw new Error('404'); return next(url, context); };";
register(`data:text/javascript,${encodeURIComponent(isGone)}`);
const { SearchClient } = await import('dpr-web');
const { privateClient } = await import('./private-server.mjs');
const { host, options, URL_OF_INDEX } = await import('./static-host.mjs');

test('a private search that could not be re-ranked says so', async (t) => {
  withStorage(t);
  const { client } = await privateClient(t);
  for (const privacy of ['blurred', 'encrypted']) {
    const { hits, reranked, rerankError } = await client.search('who', { k: 5, privacy, rerank: {} });
    assert.deepEqual([hits.length > 0, reranked, rerankError.code], [true, false, 'script_not_loaded'], privacy);
    assert.ok(!('reranked' in (await client.search('who', { k: 5, privacy }))));
  }
});

test('a search of a static index that could not be re-ranked says so', async (t) => {
  host(t);
  const client = await SearchClient.connect(URL_OF_INDEX, { privacy: 'local', ...options() });
  const { hits, reranked, rerankError } = await client.search('22', { k: 1, rerank: {} });
  assert.deepEqual([hits[0].id, reranked, rerankError.code], ['p2', false, 'script_not_loaded']);
  client.dispose();
});
