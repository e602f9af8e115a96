import assert from 'node:assert/strict';
import test from 'node:test';
import { MetadataMode } from '@llamaindex/core/schema';
import { DprRetriever } from 'dpr-web/llamaindex';
import { FakeClient } from 'dpr-web/testing';

test('LlamaIndex: a retriever finds nodes with scores, for a string or a query', async () => {
  const client = new FakeClient({ hits: [{ id: 'a', title: 'First', text: 'one', score: 0.9, metadata: { year: 2016 } }, { id: 'b', text: 'two', score: 0.5 }] });
  const retriever = new DprRetriever({ client, k: 2 });
  const nodes = await retriever.retrieve('who');
  assert.deepEqual(nodes.map(({ node, score }) => [node.id_, node.getContent(MetadataMode.NONE), node.metadata, score]), [
    ['a', 'one', { year: 2016, title: 'First' }, 0.9],
    ['b', 'two', { title: '' }, 0.5],
  ]);
  await retriever.retrieve({ query: [{ type: 'text', text: 'what' }] });
  assert.deepEqual(client.searches.map(({ question, options }) => [question, options.k]), [['who', 2], ['what', 2]]);
});

test('LlamaIndex: the error of a search is the error', async () => {
  const retriever = new DprRetriever({ client: new FakeClient({ error: new Error('no answer') }) });
  await assert.rejects(retriever.retrieve('who'), /no answer/);
});
