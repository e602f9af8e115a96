// A static host: what a bundler wrote, under a path, with headers of one's own.
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { listen } from './listen.mjs';

const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.mjs': 'text/javascript',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
};

/**
 * Serves `folder` below `base`.
 *
 * @param headers - of each answer, by name; a function of the path where they differ
 * @param server - address of a server that answers below `/v1/`, as behind a proxy
 */
export async function startSite(folder, { base = '/', headers = {}, server } = {}) {
  const site = await listen((request, response, body) => {
    const { pathname } = new URL(request.url, 'http://site.test');
    if (server && pathname.startsWith('/v1/')) return forward(new URL(request.url, server), request, response, body);
    const name = decodeURIComponent(pathname.startsWith(base) ? pathname.slice(base.length) : '');
    const file = fileOf(folder, pathname.startsWith(base) ? name : '../');
    const own = typeof headers === 'function' ? headers(pathname) : headers;
    if (file === undefined)
      return response.writeHead(404, { ...own, 'content-type': 'text/plain' }).end(`no ${pathname}`);
    return response
      .writeHead(200, { ...own, 'content-type': TYPES[path.extname(file)] ?? 'application/octet-stream' })
      .end(readFileSync(file));
  });
  return { ...site, url: new URL(base, site.url).href };
}

/** Passes a request on, and its answer back. */
async function forward(url, { method }, response, body) {
  const answer = await fetch(url, { method, body: method === 'POST' ? body : undefined });
  response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') });
  response.end(Buffer.from(await answer.arrayBuffer()));
}

/** The file that a path means, if it is one below the folder. */
function fileOf(folder, name) {
  const file = path.resolve(folder, `./${name}`);
  if (!`${file}${path.sep}`.startsWith(path.resolve(folder) + path.sep)) return undefined;
  const found = statSync(file, { throwIfNoEntry: false });
  return found?.isDirectory() ? fileOf(folder, path.join(name, 'index.html')) : found && file;
}
