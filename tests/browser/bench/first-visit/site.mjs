// The host of the pages: files compressed by brotli as a content network would, and the search server behind it.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import { repository } from '../server.mjs';

const PEERS = 'tests/browser/bench/peers/node_modules/';
const MOUNTS = {
  '/': 'tests/browser/bench/first-visit/pages/',
  '/dpr-web/': 'wasm/npm/',
  '/transformers/': `${PEERS}@huggingface/transformers/dist/`,
  '/tokenizers/': `${PEERS}@huggingface/tokenizers/dist/`,
  '/ort-common/': `${PEERS}onnxruntime-common/dist/esm/`,
  '/ort-transformers/': `${PEERS}onnxruntime-web/dist/`,
  '/ort/': 'tests/browser/node_modules/onnxruntime-web/dist/',
};
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm', '.json': 'application/json' };
/** Where 11, the best, takes minutes for 27 MB. */
const QUALITY = 9;

/** Starts on a free port. `onnx` is the peers' model and `tokenizer` the folder with their `tokenizer.json`. */
export async function startSite({ search, onnx, tokenizer }) {
  const sockets = new Set();
  let bytes = 0;
  let requests = 0;
  const models = {
    '/models/minilm/onnx/model_quantized.onnx': () => readFileSync(onnx),
    '/models/minilm/tokenizer.json': () => readFileSync(path.join(tokenizer, 'tokenizer.json')),
    '/models/minilm/tokenizer_config.json': () => '{"tokenizer_class":"BertTokenizer","model_max_length":512}',
    '/models/minilm/config.json': () => readFileSync(path.join(tokenizer, 'config.json')),
  };
  const compressed = compress(models);
  const server = http.createServer(async (request, response) => {
    requests += 1;
    const name = path.posix.normalize(new URL(request.url, 'http://localhost').pathname);
    if (name.startsWith('/v1/')) return forward(search, request, response);
    if (name === '/blank.html') return response.setHeader('content-type', 'text/html').end('<title>blank</title>');
    response.setHeader('content-type', typeOf(name) ?? 'application/octet-stream');
    if (compressed.has(name)) return response.setHeader('content-encoding', 'br').end(compressed.get(name));
    const content = models[name]?.() ?? fileOf(name);
    if (content === undefined) return response.writeHead(404).end();
    // Weights are sent as they are: content networks compress what is named as text or WebAssembly.
    response.end(content);
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => {
      bytes += socket.bytesWritten - (socket.counted ?? 0);
      sockets.delete(socket);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    /** Begins to count anew. */
    reset() {
      bytes = 0;
      requests = 0;
      for (const socket of sockets) socket.counted = socket.bytesWritten;
    },
    /** Bytes that went to the browser, headers included. */
    bytes: () => [...sockets].reduce((sum, socket) => sum + socket.bytesWritten - (socket.counted ?? 0), bytes),
    requests: () => requests,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

const typeOf = (name) => TYPES[path.extname(name)];

/** What is sent compressed, by name: all of it before the first visit, a part of whose time it would be. */
function compress(models) {
  const contents = { ...models };
  for (const [prefix, folder] of Object.entries(MOUNTS).filter(([, folder]) => existsSync(repository(folder)))) {
    for (const file of readdirSync(repository(folder), { recursive: true })) {
      if (!file.startsWith('node_modules/')) contents[prefix + file] ??= () => fileOf(prefix + file);
    }
  }
  const params = { [constants.BROTLI_PARAM_QUALITY]: QUALITY };
  const compressed = new Map();
  for (const name of Object.keys(contents).filter(typeOf)) {
    const content = contents[name]();
    if (content !== undefined) compressed.set(name, brotliCompressSync(content, { params }));
  }
  return compressed;
}

function fileOf(name) {
  const mount = Object.keys(MOUNTS).findLast((prefix) => name.startsWith(prefix));
  const file = repository(MOUNTS[mount] + name.slice(mount.length));
  return existsSync(file) && statSync(file).isFile() ? readFileSync(file) : undefined;
}

function forward(search, request, response) {
  const { pathname } = new URL(request.url, 'http://localhost');
  const headers = { ...request.headers, host: new URL(search).host };
  const onward = http.request(new URL(pathname, search), { method: request.method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', () => response.destroy());
  request.pipe(onward);
}
