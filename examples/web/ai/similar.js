// node similar.js http://127.0.0.1:7878 'who won super bowl 50' 'which team won the 50th super bowl' 'what is a prime number'
import { cosineSimilarity, embedMany } from 'ai';
import { dprEmbedding } from 'dpr-web/ai';
import { loadEncoder } from 'dpr-web/node';

const [server, ...questions] = process.argv.slice(2);
if (questions.length < 2) {
  console.error('usage: node similar.js SERVER QUESTION OTHER-QUESTION …');
  process.exit(2);
}
const encoder = await loadEncoder(new URL('v1/model', server), { cacheDirectory: 'model-files' });
// An embedding model as any other of the AI SDK. The questions do not leave this machine.
const { embeddings } = await embedMany({ model: dprEmbedding(encoder), values: questions });
const [first, ...others] = embeddings;
others.forEach((other, at) => console.log(cosineSimilarity(first, other).toFixed(3), questions[at + 1]));
encoder.dispose();
