// A server with the routes of `dpr serve` that a page uses, for any origin, over a model of 100 kB.
import { readFileSync } from 'node:fs';
import { nearest, vectorOf } from './questions.mjs';
import { listen } from './listen.mjs';

const read = (name) => readFileSync(new URL(`../model/${name}`, import.meta.url));
const manifest = JSON.parse(read('manifest.json'));
const offered = [manifest.encoder.config, manifest.encoder.tokenizer, manifest.weights.q8];
const files = new Map(offered.map(({ url }) => [url, read(url.split('/').at(-1))]));

/** What browsers may send and read, as `dpr serve --allow-origin` answers. */
const CORS = {
  'access-control-allow-headers': 'content-type,range,if-none-match,if-range',
  'access-control-allow-methods': 'GET,POST',
  'access-control-expose-headers': 'etag,retry-after',
};

/** Starts a server; `searches` gets the vector of each search, and `requests` everything that arrives. */
export async function startServer() {
  const searches = [];
  const server = await listen((request, response, body) => {
    const send = (status, value, type = 'application/json') => {
      response.writeHead(status, { ...CORS, 'access-control-allow-origin': '*', 'content-type': type });
      response.end(Buffer.isBuffer(value) ? value : JSON.stringify(value));
    };
    const refuse = (status, code, message) => send(status, { error: { code, message } });
    if (request.method === 'OPTIONS') return send(200, Buffer.alloc(0));
    if (request.method === 'GET' && request.url === '/v1/model') return send(200, manifest);
    const file = files.get(request.url);
    if (request.method === 'GET' && file) return send(200, file, 'application/octet-stream');
    if (request.method !== 'POST' || request.url !== '/v1/search') return refuse(404, 'not_found', request.url);
    const { vector, k, model } = JSON.parse(body.toString());
    if (model !== manifest.fingerprint) return refuse(409, 'wrong_model', String(model));
    const question = vectorOf(vector);
    searches.push(question);
    return send(200, { hits: nearest(question, k), took_ms: 0.1 });
  });
  return { ...server, searches };
}
