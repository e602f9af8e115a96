// Serves the bench page, both engines and the models to one browser.
import { createReadStream, existsSync, statSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** A path of the repository. */
export const repository = (relative) => path.resolve(root, relative);

const MOUNTS = {
  '/': 'tests/browser/bench/',
  '/dpr/': 'wasm/npm/wasm/',
  '/package/': 'wasm/npm/',
  '/ort/': 'tests/browser/node_modules/onnxruntime-web/dist/',
  '/model/': 'data/model/',
  '/onnx/': 'target/bench/',
  '/litert/': 'target/bench/litert/',
  '/peers/': 'tests/browser/bench/peers/node_modules/',
};
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm', '.json': 'application/json' };

/** Starts on a free port. @param more - further mounts: folders of the repository by the beginning of their paths */
export async function fileServer(more = {}) {
  const mounts = { ...MOUNTS, ...more };
  const server = http.createServer((request, response) => {
    const name = path.posix.normalize(new URL(request.url, 'http://localhost').pathname);
    const mount = Object.keys(mounts).findLast((prefix) => name.startsWith(prefix));
    const file = repository(mounts[mount] + name.slice(mount.length));
    if (!existsSync(file) || !statSync(file).isFile()) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, {
      'content-type': TYPES[path.extname(file)] ?? 'application/octet-stream',
      'content-length': statSync(file).size,
      // Finer clocks: without isolation browsers round to 0.1 ms. No threads are used for it.
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-embedder-policy': 'require-corp',
    });
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}
