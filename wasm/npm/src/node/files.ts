import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import process from 'node:process';

/** Files of a `dpr serve`, of models and of private modes, have their SHA-256 in their address. */
const NAMED_FILE = /\/v1\/(?:model|private|encrypted)\/files\/([0-9a-f]{64})\/[^/]+$/;

/** A file that is being written: its SHA-256 and the id of who writes it. */
const PART = /^[0-9a-f]{64}\.[0-9a-f-]{36}$/;
/** Nobody writes a file for longer, in milliseconds: whoever began it has ended. */
const LONGEST_WRITE = 24 * 60 * 60 * 1000;

/** What {@link fileFetch} does besides `fetch`. */
export interface FileFetchOptions {
  /** Whether `file:` addresses are read. A server must not name files of this machine. */
  readsFiles: boolean;
  /** Folder that keeps files of a `dpr serve` by their SHA-256. */
  directory?: string | undefined;
}

/** `fetch` that reads files, which Node's does not, and keeps those of a `dpr serve` in a folder. */
export function fileFetch(web: typeof fetch | undefined, { readsFiles, directory }: FileFetchOptions): typeof fetch {
  return async (input, init) => {
    const request = web ?? globalThis.fetch;
    const url = new URL(input instanceof Request ? input.url : input);
    if (url.protocol === 'file:') {
      return readsFiles ? read(url) : new Response(null, { status: 403, statusText: 'files of this machine are not read' });
    }
    const sha256 = NAMED_FILE.exec(url.pathname)?.[1];
    // The rest of a download that broke is only a part of the file.
    if (!directory || !sha256 || new Headers(init?.headers).has('range')) return request(input, init);
    const file = path.join(directory, sha256);
    const kept = await recall(file, sha256);
    if (kept) return new Response(kept);
    const response = await request(input, init);
    if (response.status !== 200 || !response.body) return response;
    const [given, copied] = response.body.tee();
    void keep(file, sha256, copied);
    return new Response(given, response);
  };
}

/** The answer with a file of this machine. */
async function read(url: URL): Promise<Response> {
  try {
    const type = url.pathname.endsWith('.wasm') ? 'application/wasm' : 'application/octet-stream';
    return new Response(await readFile(url), { headers: { 'content-type': type } });
  } catch (error) {
    return new Response(null, { status: 404, statusText: String((error as { code?: unknown }).code ?? 'unreadable') });
  }
}

/** The kept file if it is still what it was. */
async function recall(file: string, sha256: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  try {
    const bytes = await readFile(file);
    if (digest(bytes) === sha256) return bytes;
    await rm(file);
  } catch {
    // Not there yet.
  }
  return undefined;
}

/** Folders that could not be written, of which the process has been warned. */
const unwritable = new Set<string>();

/**
 * Writes the file to the cache, under its name once it is whole. When writing fails nothing stays, the file is
 * downloaded again next time, and the process is warned, once for each folder.
 */
async function keep(file: string, sha256: string, body: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
  const folder = path.dirname(file);
  const part = `${file}.${randomUUID()}`;
  // The error of a broken download reaches the caller by its own copy of the body.
  const bytes = await new Response(body).arrayBuffer().then((buffer) => new Uint8Array(buffer), () => undefined);
  if (!bytes || digest(bytes) !== sha256) return;
  try {
    await mkdir(folder, { recursive: true });
    await writeFile(part, bytes);
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true }).catch(() => undefined);
    if (unwritable.has(folder)) return;
    unwritable.add(folder);
    const detail = 'Files are downloaded at each start. Give a `cacheDirectory` that can be written, or none.';
    process.emitWarning(`\`cacheDirectory\` ${folder} cannot be written: ${(error as Error).message}`, { type: 'DprWebWarning', detail });
    return;
  }
  await removeOldParts(folder).catch(() => undefined);
}

/** Removes what processes that ended in the middle of a file have left in the folder. */
async function removeOldParts(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!PART.test(name)) continue;
    const part = path.join(folder, name);
    if (Date.now() - (await stat(part)).mtimeMs > LONGEST_WRITE) await rm(part, { force: true });
  }
}

function digest(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
