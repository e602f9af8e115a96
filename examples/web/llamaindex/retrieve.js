// node retrieve.js http://127.0.0.1:7878 who won super bowl 50
import { MetadataMode } from '@llamaindex/core/schema';
import { DprRetriever } from 'dpr-web/llamaindex';
import { connect } from 'dpr-web/node';

const [server, ...words] = process.argv.slice(2);
if (words.length === 0) {
  console.error('usage: node retrieve.js SERVER QUESTION');
  process.exit(2);
}
const client = await connect(server, { cacheDirectory: 'model-files' });
const retriever = new DprRetriever({ client, k: 5 });
// A query engine takes the retriever as it is: `new RetrieverQueryEngine(retriever)` of `llamaindex` puts the nodes before
// a language model, which then sees the question and the passages.
const nodes = await retriever.retrieve(words.join(' '));
for (const { node, score } of nodes) console.log(score.toFixed(3), node.metadata.title, '|', node.getContent(MetadataMode.NONE));
client.dispose();
