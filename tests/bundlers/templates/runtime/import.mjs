// Imports the package as a server does that renders pages, and asks without a worker.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { SearchClient } from 'dpr-web';
import 'dpr-web/worker';

const [server, question] = process.argv.slice(2);
const client = SearchClient.create(server);
assert.equal(client.state, 'idle');
await assert.rejects(client.search(question), ({ code, fix }) => code === 'no_worker' && fix.length > 0);
client.dispose();

// `require` of a module came with Node.js 22.
if (Number(process.versions.node.split('.')[0]) >= 22) {
  assert.equal(createRequire(import.meta.url)('dpr-web').SearchClient, SearchClient);
}
