// Encodes and searches with `dpr-web/node`: node.mjs ENGINE SERVER QUESTION
import { connect } from 'dpr-web/node';

const [engine, server, question] = process.argv.slice(2);
const client = await connect(server, { engine, cacheDirectory: 'model-files' });
const [vector] = await client.encodeMany([question]);
const { hits } = await client.search(question, { k: 5 });
console.log(JSON.stringify({ titles: hits.map(({ title }) => title), vector: [...vector] }));
client.dispose();
