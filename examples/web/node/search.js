// node search.js http://127.0.0.1:7878 who won super bowl 50
import { connect } from 'dpr-web/node';

const [server, ...words] = process.argv.slice(2);
if (words.length === 0) {
  console.error('usage: node search.js SERVER QUESTION');
  process.exit(2);
}
const client = await connect(server, { cacheDirectory: 'model-files' });
const { hits, request } = await client.search(words.join(' '), { k: 5 });
for (const { score, title, text } of hits) console.log(score.toFixed(3), title, '|', text);
console.log(`${request.bytes} bytes were sent to ${request.url}`);
client.dispose();
