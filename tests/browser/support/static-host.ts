import { existsSync, readFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { BLANK, PACKAGE, packageFile } from './gateway.ts';

const TYPES: Record<string, string> = { '.js': 'text/javascript', '.wasm': 'application/wasm', '.json': 'application/json', '.html': 'text/html' };

/** A plain file host: byte ranges, no server of ours behind it. Records what is asked for, and can spoil answers. */
export class StaticHost {
  /** Paths that were asked for, with the range where there was one. */
  readonly requests: { path: string; range: string | undefined }[] = [];
  /** Files that are in memory, by their paths. */
  readonly pages = new Map<string, [type: string, text: string]>();
  /** Answers in the host's place; returns false to let it answer. */
  spoil: ((path: string, bytes: Buffer, response: http.ServerResponse) => boolean) | undefined;
  readonly #folder: string;
  readonly #server = http.createServer((request, response) => this.#answer(request, response));

  /** @param folder - what lies under `/dpr/` */
  constructor(folder: string) {
    this.#folder = folder;
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Ends all connections; nobody answers any more. */
  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer({ url = '/', headers }: http.IncomingMessage, response: http.ServerResponse): void {
    const name = url.split('?')[0]!;
    this.requests.push({ path: name, range: headers.range });
    const made = name === BLANK ? ['text/html', '<!doctype html><title>blank</title><link rel="icon" href="data:,">'] : this.pages.get(name);
    const file = name.startsWith(PACKAGE) ? packageFile(name.slice(PACKAGE.length)) : path.join(this.#folder, path.normalize(name.replace(/^\/dpr/, '')));
    if (!made && !existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    const bytes = made ? Buffer.from(made[1]!) : readFileSync(file);
    if (this.spoil?.(name, bytes, response)) return;
    const type = made?.[0] ?? TYPES[path.extname(file)] ?? 'application/octet-stream';
    const first = Number(/^bytes=(\d+)-$/.exec(headers.range ?? '')?.[1] ?? 0);
    const range = first > 0 ? { 'content-range': `bytes ${first}-${bytes.length - 1}/${bytes.length}` } : {};
    response.writeHead(first > 0 ? 206 : 200, { 'content-type': type, 'content-length': bytes.length - first, ...range });
    response.end(bytes.subarray(first));
  }
}
