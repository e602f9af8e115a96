/**
 * For Node from 20.12 on, Bun and Deno: the client and the encoder of `dpr-web`, with the encoder in a thread and its
 * WebAssembly read from disk.
 *
 * @packageDocumentation
 */
import { SearchClient, type ReadyClient } from '../client/search-client.js';
import { QuestionEncoder } from '../encoder/question-encoder.js';
import type { ModelManifest } from '../types/manifest.js';
import type { ConnectOptions, LoadOptions } from '../types/options.js';
import { fileFetch } from './files.js';
import { InlineWorker } from './inline-worker.js';
import { ThreadWorker } from './thread-worker.js';

/** Options that are for Node, Bun and Deno alone. */
export interface EngineOptions {
  /**
   * Where questions are encoded. `thread` (the default): in a thread of its own, which does not keep the process alive.
   * `inline`: in the thread that asks, which waits meanwhile, for runtimes without threads.
   * @example { engine: 'inline' }
   */
  engine?: 'thread' | 'inline' | undefined;
  /**
   * Folder that keeps the files of a `dpr serve`, by their SHA-256: those of models and of private modes, whose
   * addresses are `/v1/model/files/SHA256/NAME` and the like. The next start downloads none of them. Files of other
   * hosts, as those of a static index, are not kept, and by default nothing is. What it keeps of earlier models and of
   * earlier private tables, of which each version of an index has its own, stays until you remove it. Where the folder
   * cannot be written, nothing is kept, and the process is warned once (`DprWebWarning`).
   * @example { cacheDirectory: '/var/cache/dpr' }
   */
  cacheDirectory?: string | undefined;
}

/** What has no meaning outside a browser. */
type InBrowsers = 'device' | 'measure' | 'worker' | 'createWorker' | 'keepOldModels';

/** Options of {@link loadEncoder}. */
export interface NodeLoadOptions extends Omit<LoadOptions, InBrowsers>, EngineOptions {}

/** Options of {@link createClient} and {@link connect}. */
export interface NodeConnectOptions extends Omit<ConnectOptions, InBrowsers | 'baseUrl'>, EngineOptions {}

/**
 * A client that does nothing yet, as `SearchClient.create`.
 *
 * @param url - the server's address, absolute
 *
 * @example
 * const client = createClient('https://search.example.org/', { cacheDirectory: '.dpr' });
 * const { hits } = await client.search('who won super bowl 50', { k: 5 });
 */
export function createClient(url: string | URL, options: NodeConnectOptions = {}): SearchClient {
  return SearchClient.create(url, inNode(options, false));
}

/**
 * A client whose encoder is here, as `SearchClient.connect`.
 *
 * @example
 * const client = await connect('https://search.example.org/');
 * const results = await client.searchMany(['who won super bowl 50', 'who played in it']);
 */
export function connect(url: string | URL, options: NodeConnectOptions = {}): Promise<ReadyClient> {
  return SearchClient.connect(url, inNode(options, false));
}

/**
 * The encoder alone, as `QuestionEncoder.load`.
 *
 * @param source - address of a manifest, a `file:` address as well, or the manifest itself, whose files may be `file:`
 * addresses too
 *
 * @example
 * const encoder = await loadEncoder(new URL('./model/manifest.json', import.meta.url), { dtype: 'f32' });
 * const vector = await encoder.encode('who won super bowl 50'); // Float32Array, encoder.dim numbers
 */
export function loadEncoder(
  source: string | URL | ModelManifest,
  options: NodeLoadOptions = {},
): Promise<QuestionEncoder> {
  // A manifest from elsewhere must not name files of this machine.
  const isOwn = !(typeof source === 'string' || source instanceof URL) || String(source).startsWith('file:');
  return QuestionEncoder.load(source, inNode(options, isOwn));
}

function inNode<T extends LoadOptions>(options: T & EngineOptions, readsFiles: boolean): T & LoadOptions {
  const { engine = 'thread', cacheDirectory, ...rest } = options;
  const createWorker = () => (engine === 'inline' ? new InlineWorker() : new ThreadWorker()) as unknown as Worker;
  const fetch = fileFetch(options.fetch, { readsFiles, directory: cacheDirectory });
  // One thread has one place to read in: as with workers that are shared, which there are none of here.
  const worker = engine === 'inline' ? 'shared' : 'dedicated';
  return { ...(rest as unknown as T), device: 'cpu', worker, createWorker, fetch };
}
