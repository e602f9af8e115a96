// node retrieve.js http://127.0.0.1:7878 who won super bowl 50
import { DprRetriever } from 'dpr-web/langchain';
import { connect } from 'dpr-web/node';

const [server, ...words] = process.argv.slice(2);
if (words.length === 0) {
  console.error('usage: node retrieve.js SERVER QUESTION');
  process.exit(2);
}
const client = await connect(server, { cacheDirectory: 'model-files' });
const retriever = new DprRetriever({ client, k: 5 });
// A retriever is a runnable: `retriever.pipe(prompt).pipe(model)` puts the documents before a language model, which then
// sees the question and the passages.
const documents = await retriever.invoke(words.join(' '));
for (const { pageContent, metadata } of documents) console.log(metadata.score.toFixed(3), metadata.title, '|', pageContent);
client.dispose();
