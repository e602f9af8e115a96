import { createReadStream, existsSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { repository } from './paths.ts';

/** A request as it came over the wire. */
export interface Recorded {
  method: string;
  path: string;
  headers: http.IncomingHttpHeaders;
  /** Names and values in the order they were sent. */
  rawHeaders: string[];
  body: Buffer;
}

/** Answers a request in the server's place; returns false to let it through. */
export type Interceptor = (request: Recorded, response: http.ServerResponse, count: number) => boolean;

/** Where the published package lies beside the server's own paths. */
export const PACKAGE = '/package/';
/** An empty page of the server's origin. */
export const BLANK = '/blank.html';

const TYPES: Record<string, string> = { '.js': 'text/javascript', '.wasm': 'application/wasm', '.json': 'application/json' };

/**
 * Stands between the browser and the real `dpr serve`: records what arrives, which is all that left
 * the browser for this origin, and can spoil answers. Also serves the package as published, for tests of
 * its own interface on a blank page.
 */
export class Gateway {
  readonly requests: Recorded[] = [];
  /** Times each path was asked for since the last reset. */
  readonly #counts = new Map<string, number>();
  #interceptor: Interceptor | undefined;
  #server: http.Server | undefined;
  #upstream: string | undefined;

  async start(): Promise<void> {
    this.#server = http.createServer((request, response) => this.#receive(request, response));
    await new Promise<void>((resolve) => this.#server!.listen(0, '127.0.0.1', resolve));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server!.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server?.closeAllConnections();
    await new Promise((resolve) => this.#server?.close(resolve));
  }

  /** Forgets what was recorded and answers truthfully again. */
  reset(): void {
    this.requests.length = 0;
    this.#counts.clear();
    this.#interceptor = undefined;
    this.#upstream = undefined;
  }

  /** Passes requests on to this server, or again to the one of all tests. */
  serve(upstream: string | undefined): void {
    this.#upstream = upstream;
  }

  /** Lets `interceptor` answer first. */
  intercept(interceptor: Interceptor): void {
    this.#interceptor = interceptor;
  }

  /** Recorded requests whose path holds this. */
  matching(part: string): Recorded[] {
    return this.requests.filter((request) => request.path.includes(part));
  }

  #receive(request: http.IncomingMessage, response: http.ServerResponse): void {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const recorded: Recorded = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        rawHeaders: request.rawHeaders,
        body: Buffer.concat(chunks),
      };
      this.requests.push(recorded);
      const count = (this.#counts.get(recorded.path) ?? 0) + 1;
      this.#counts.set(recorded.path, count);
      if (this.#interceptor?.(recorded, response, count)) return;
      if (recorded.path.split('?')[0] === BLANK) {
        response.setHeader('content-type', 'text/html');
        // Its own icon, so that the browser asks for none by itself.
        response.end('<!doctype html><title>blank</title><link rel="icon" href="data:,">');
      } else if (recorded.path.startsWith(PACKAGE)) {
        sendPackageFile(recorded.path.slice(PACKAGE.length), response);
      } else {
        forward(recorded, response, this.#upstream);
      }
    });
  }
}

function sendPackageFile(name: string, response: http.ServerResponse): void {
  const file = packageFile(name);
  if (!existsSync(file)) {
    response.writeHead(404).end();
    return;
  }
  response.setHeader('content-type', TYPES[path.extname(file)] ?? 'application/octet-stream');
  createReadStream(file).pipe(response);
}

/**
 * A file of the package: what `npm install` of the tarball put there, or, without that, what the tarball is made of.
 */
export function packageFile(name: string): string {
  const installed = repository('web-demo/node_modules/dpr-web');
  return path.join(existsSync(installed) ? installed : repository('wasm/npm'), path.normalize(`/${name}`));
}

/** Answers for the page as a host does that sets no policy: its text, without the server's headers. */
export function plainHost(gateway: Gateway): void {
  gateway.intercept((request, response) => {
    if (!request.path.startsWith('/?')) return false;
    void fetch(new URL(request.path, process.env.DPR_URL)).then(async (answer) => {
      response.setHeader('content-type', 'text/html');
      response.end(await answer.text());
    });
    return true;
  });
}

/** Passes a request on to the real server and its answer back, byte for byte. */
export function forward(recorded: Recorded, response: http.ServerResponse, server = process.env.DPR_URL): void {
  const upstream = http.request(
    new URL(recorded.path, server),
    { method: recorded.method, headers: recorded.headers },
    (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    },
  );
  upstream.on('error', () => response.writeHead(502).end());
  upstream.end(recorded.body);
}
