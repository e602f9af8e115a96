import assert from 'node:assert/strict';
import test from 'node:test';
import { RunnableLambda } from '@langchain/core/runnables';
import { DprRetriever } from 'dpr-web/langchain';
import { FakeClient } from 'dpr-web/testing';
import { until } from './dom.mjs';

const HITS = [{ id: 'a', title: 'First', text: 'one', score: 0.9, metadata: { year: 2016 } }, { id: 'b', text: 'two', score: 0.5 }];

test('LangChain: a retriever finds documents, in a chain as well', async () => {
  const client = new FakeClient({ hits: HITS });
  const retriever = new DprRetriever({ client, k: 2, filter: { titles: ['First'] }, tags: ['dpr'] });
  const documents = await retriever.invoke('who');
  assert.deepEqual(documents.map(({ id, pageContent, metadata }) => ({ id, pageContent, metadata })), [
    { id: 'a', pageContent: 'one', metadata: { year: 2016, title: 'First', score: 0.9 } },
    { id: 'b', pageContent: 'two', metadata: { title: '', score: 0.5 } },
  ]);
  const [{ question, options }] = client.searches;
  assert.deepEqual([question, options.k, options.filter], ['who', 2, { titles: ['First'] }]);
  const chain = retriever.pipe(new RunnableLambda({ func: (found) => found.map(({ pageContent }) => pageContent).join() }));
  assert.equal(await chain.invoke('what'), 'one,two');
  assert.equal((await retriever.batch(['x', 'y'])).length, 2);
});

test('LangChain: the private mode of a retriever is that of its searches', async () => {
  const client = new FakeClient({ hits: ['one'] });
  await new DprRetriever({ client, privacy: 'encrypted' }).invoke('who');
  assert.equal(client.searches[0].options.privacy, 'encrypted');
});

test('LangChain: callbacks hear of a run, and its error is the error of the search', async () => {
  const heard = [];
  const callbacks = [{ handleRetrieverStart: () => heard.push('start'), handleRetrieverEnd: (documents) => heard.push(documents.length), handleRetrieverError: (error) => heard.push(error.message) }];
  const client = new FakeClient({ hits: HITS });
  const retriever = new DprRetriever({ client, callbacks });
  await retriever.invoke('who');
  client.script = { error: new Error('no answer') };
  await assert.rejects(retriever.invoke('who'), /no answer/);
  await until(() => heard.length === 4);
  assert.deepEqual(heard, ['start', 2, 'start', 'no answer']);
});

test('LangChain: the signal of one call gives that search up, and no other', async () => {
  const client = new FakeClient({ hits: HITS, delay: (question) => (question === 'slow' ? 60_000 : 5) });
  const retriever = new DprRetriever({ client });
  const stop = new AbortController();
  const slow = retriever.invoke('slow', { signal: stop.signal });
  const other = retriever.invoke('other');
  await until(() => client.searches.length === 2);
  stop.abort(new Error('typed on'));
  await assert.rejects(slow, /typed on/);
  assert.equal((await other).length, 2);
  assert.equal(client.searches[1].options.signal, undefined);
});

test('LangChain: what is written down of a retriever does not hold its client', () => {
  const written = JSON.stringify(new DprRetriever({ client: new FakeClient() }));
  assert.match(written, /DprRetriever/);
  assert.doesNotMatch(written, /searches|script/);
});
