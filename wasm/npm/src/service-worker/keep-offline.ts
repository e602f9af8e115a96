import type { DtypeChoice } from '../types/device.js';
import type { NetworkOptions } from '../types/network.js';
import { refused } from '../wire/refused.js';
import { fetchManifest, type ManifestParts } from '../weights/fetch-manifest.js';
import { chooseDtype } from '../weights/choose-dtype.js';
import { recallManifest } from '../weights/manifest-note.js';
import { fetchModelFiles } from '../weights/model-files.js';
import { evictOldModels, noteModel } from '../weights/old-models.js';
import { parseManifest, readManifest } from '../weights/read-manifest.js';
import { sha256Hex } from '../weights/sha256.js';
import { address } from '../wire/address.js';
import { transport } from '../wire/transport.js';

/** Service workers cannot fetch scripts by `import()`. */
const MANIFEST_PARTS: ManifestParts = { reader: async () => ({ parseManifest, readManifest }), recall: recallManifest };

/** Beginning of the names of the caches with scripts; the fingerprint of the list follows. */
const PREFIX = 'dpr-web-assets:';

/** Options of {@link keepOffline}. */
export interface KeepOfflineOptions extends NetworkOptions {
  /**
   * The server's address, absolute or relative to the service worker. Default `/`. `null` where there is none, as for
   * pages that search with `LocalSearch`, which keeps its files itself: no model is kept then.
   */
  server?: string | URL | null | undefined;
  /**
   * Scripts, workers, WebAssembly and styles, by addresses that change when their content does, as bundlers name them.
   * They are answered from what is kept. Of the modules, both for the CPU
   * belong to it; without WebGPU leave that one out, which is the largest file.
   * @example { assets: ['/assets/index-3f2a.js', '/assets/dpr_wasm_bg-77de.wasm', '/assets/dpr_wasm_bg-a90c.wasm'] }
   */
  assets: readonly string[];
  /**
   * Pages, by addresses without a query. They come from the network, and without one from what is kept. An answer to an
   * address with a query, which may hold a question, is not kept.
   * @example { pages: ['/'] }
   */
  pages?: readonly string[] | undefined;
  /** Which weights to keep: the format that the page uses. Default `auto`, which is q8. */
  dtype?: DtypeChoice | undefined;
  /** Which question encoder to keep: the one that the page loads. Default: the server's own. */
  encoder?: 'small' | undefined;
}

/** The part of a `FetchEvent` that is used. */
export interface FetchEventLike {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
  waitUntil?(work: Promise<unknown>): void;
}

/** What {@link keepOffline} returns, for the events of a service worker. */
export interface OfflineFiles {
  /**
   * Fetches and keeps everything. Rejects when something cannot be had, and keeps no script then, unless the same list
   * was kept before.
   * @throws {@link DownloadError}, {@link ManifestError}, {@link IntegrityError}
   */
  install(): Promise<void>;
  /** Removes scripts of earlier lists, and files of earlier models. */
  activate(): Promise<void>;
  /** Answers requests for what is kept, and leaves all others alone: searches and their answers are never kept. */
  fetch(event: FetchEventLike): void;
}

/**
 * Keeps the model's files, scripts and WebAssembly for when there is no network. Model files go, checked, into the
 * cache where the page's client looks for them, by their SHA-256; scripts into one by the fingerprint of their list.
 *
 * @example
 * import { keepOffline } from 'dpr-web/service-worker';
 * const files = keepOffline({ assets: ['/assets/index-3f2a.js', '/assets/worker-cpu-91bc.js'], pages: ['/'] });
 * self.addEventListener('install', (event) => event.waitUntil(files.install()));
 * self.addEventListener('activate', (event) => event.waitUntil(files.activate()));
 * self.addEventListener('fetch', (event) => files.fetch(event));
 */
export function keepOffline(options: KeepOfflineOptions): OfflineFiles {
  const server = address(options.server ?? '/', "the server's address");
  if (!server.pathname.endsWith('/')) server.pathname += '/';
  const absolute = (list: readonly string[]) => list.map((url) => address(url, 'a file to keep').href);
  const assets = absolute(options.assets);
  const pages = absolute(options.pages ?? []);
  const requests = transport(options, server, 'omit');

  const name = async () => PREFIX + (await sha256Hex(new TextEncoder().encode(JSON.stringify([assets, pages]))));
  const open = async () => caches.open(await name());
  /** What is kept of this address; nothing where the cache cannot be opened. */
  const recall = async (url: string) => {
    const match = async () => (await open()).match(url);
    return match().catch(() => undefined);
  };

  async function keepModel(): Promise<void> {
    const url = new URL(options.encoder ? 'v1/model/small' : 'v1/model', server).href;
    const manifest = await fetchManifest(url, requests, undefined, MANIFEST_PARTS);
    const dtype = chooseDtype(options.dtype ?? 'auto', 'auto', manifest);
    await fetchModelFiles(manifest, dtype, () => undefined, requests);
    await noteModel(url, manifest);
  }

  async function keepScripts(): Promise<void> {
    const cache = await open();
    const keep = async (url: string, mode: RequestCache) => {
      const response = await fetch(url, { cache: mode, referrerPolicy: 'no-referrer' });
      if (!response.ok) throw refused(url, response);
      // Browsers take no answer that was redirected for a page.
      await cache.put(url, response.redirected ? new Response(response.body, response) : response);
    };
    await Promise.all([...assets.map((url) => keep(url, 'default')), ...pages.map((url) => keep(url, 'reload'))]);
  }

  /** The page from the network, else as it was kept. */
  async function page(event: FetchEventLike, url: string): Promise<Response> {
    const { request } = event;
    let response: Response;
    try {
      response = await fetch(request);
    } catch (error) {
      const kept = await recall(url);
      if (!kept) throw error;
      return kept;
    }
    if (response.ok && request.url === url) {
      const copy = response.clone();
      // Beside the answer: a full disk takes nothing from a page that came.
      const keeping = open().then((cache) => cache.put(url, copy));
      const ended = keeping.catch(() => undefined);
      event.waitUntil?.(ended);
    }
    return response;
  }

  return {
    async install() {
      const own = await name();
      // A service worker with the same list may be at work with them.
      const isInUse = await caches.has(own);
      try {
        await Promise.all([options.server === null || keepModel(), keepScripts()]);
      } catch (error) {
        if (!isInUse) await caches.delete(own);
        throw error;
      }
    },
    async activate() {
      const own = await name();
      const old = (await caches.keys()).filter((key) => key.startsWith(PREFIX) && key !== own);
      await Promise.all([evictOldModels(), ...old.map((key) => caches.delete(key))]);
    },
    fetch(event) {
      const { request } = event;
      if (request.method !== 'GET') return;
      const [url] = request.url.split(/[?#]/, 1);
      if (assets.includes(request.url)) {
        event.respondWith(recall(request.url).then((kept) => kept ?? fetch(request)));
      } else if (request.mode === 'navigate' && pages.includes(url!)) {
        event.respondWith(page(event, url!));
      }
    },
  };
}
