import { createHash } from 'node:crypto';
import { SearchClient } from '../dist/index.js';
import { FakeWorker, tinyModel } from './fake-worker.mjs';
import { fakeFetch, fileOf, someBytes } from './helpers.mjs';

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** The projection of four numbers to two. */
export const PROJECTION = someBytes(16 + 4 * 4 + 2 * 4 * 2);
export const HINTS = ['projection.f16', 'columns.bin', 'rank.hint', 'text.hint'].map((name, at) => ({ name, content: someBytes(40 + at) }));
export const VERSION = 'ab'.repeat(32);
/** Bytes of the four bodies of a search, as the stand-in of the module has them. */
export const TRAFFIC = Array.from({ length: 10 }, (_, at) => [60, 50, 30 * (at + 1), 20 * (at + 1)]);

export const description = () => ({
  blurred: {
    model: 'f'.repeat(64),
    dim: 4,
    rank: 2,
    projection: { url: '/v1/private/files/x/projection.f16', bytes: PROJECTION.length, sha256: sha256(PROJECTION) },
    levels: { light: { dims: 96, noise: 0.3, candidates: 50, recall: 1 }, medium: { dims: 64, noise: 0.30000001192092896, candidates: 50, recall: 1 } },
  },
});

export const CODE = Buffer.from([0, 0, 0, 0, 1, 2]).toString('base64');
export const candidates = () => ({
  candidates: ['Cats', 'Dogs', 'Eels'].map((title, at) => ({ id: String(at), title, text: `${title} sleep.`, code: CODE })),
  took_ms: 2,
});

/** What the module would answer: a question is as long as its vector says, whatever it is. */
export function standIn(calls, change = {}) {
  return (call) => {
    calls.push(call);
    const { name, k, search } = call;
    if (change[name]) return change[name](call);
    switch (name) {
      case 'projection':
        return { dim: 4, codeLength: 6 };
      case 'blur':
        return { sent: someBytes(128) };
      case 'candidates':
        return { ranked: Float64Array.of(2, 0.9, 0, 0.5).slice(0, 2 * k) };
      case 'tables':
        return { version: VERSION, model: 'f'.repeat(64), dims: 8, traffic: TRAFFIC, files: HINTS.map(({ name, content }) => ({ name, bytes: content.length, sha256: sha256(content) })) };
      case 'ask':
        return { message: new Uint8Array(60).fill(search) };
      case 'ranked':
        return { changes: 0, isBehind: false };
      case 'choose':
        return { message: new Uint8Array(150).fill(search) };
      case 'open':
        return { hits: [{ id: '1', title: 'Cats', text: 'Cats sleep.', score: 0.5 }] };
      default:
        return {};
    }
  };
}

/** The answers of a server that offers both modes; `change` has others for some of its paths. */
export function privateServer(change = {}) {
  const routes = {
    'v1/private': () => Response.json(description()),
    'v1/private/candidates': () => Response.json(candidates()),
    'v1/encrypted': () => new Response('{}'),
    'v1/encrypted/rank': () => new Response(someBytes(50)),
    'v1/encrypted/fetch': () => new Response(someBytes(100)),
    'v1/private/files/x/projection.f16': () => new Response(PROJECTION),
    ...Object.fromEntries(HINTS.map(({ name, content }) => [`v1/encrypted/files/${sha256(content)}/${name}`, () => new Response(content)])),
    ...change,
  };
  return (path, init, count) => routes[path]?.(init, count);
}

/**
 * A client of such a server, with all requests that it made, and what its worker was asked. With `reader`, the server has
 * one, whose files are these.
 */
export async function privateClient(t, { routes = {}, module = {}, options = {}, reader } = {}) {
  const { manifest, restore } = tinyModel();
  if (reader) {
    const file = (name) => fileOf(reader[name], `/v1/model/files/${name}`);
    const named = { name: 'reader', fingerprint: 'e'.repeat(64), max_tokens: 350 };
    manifest.reader = { ...named, config: file('r.config'), tokenizer: file('r.tokenizer'), weights: { q8: file('r.q8') } };
    for (const name of Object.keys(reader)) routes = { [`v1/model/files/${name}`]: () => new Response(reader[name]), ...routes };
  }
  const files = globalThis.fetch;
  const server = privateServer(routes);
  const posts = [];
  const { calls, restore: restoreServer } = fakeFetch((url, init, count) => {
    const path = url.replace('https://server.test/', '');
    if (init.method === 'POST') posts.push({ path, body: init.body, headers: { ...init.headers } });
    if (path === 'v1/model') return Response.json(manifest);
    const answer = server(path, init, count);
    return answer ?? files(`https://server.test/${url.split('/').pop()}`, init);
  });
  t.after(() => {
    restoreServer();
    restore();
  });
  const asked = [];
  const workers = [];
  const createWorker = () => {
    workers.push(new FakeWorker({ private: standIn(asked, module) }));
    return workers.at(-1);
  };
  const client = await SearchClient.connect('https://server.test/', { device: 'cpu', createWorker, ...options });
  t.after(() => client.dispose());
  return { client, calls, posts, asked, workers };
}
