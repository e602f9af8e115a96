import type { ModelManifest, Privacy, PrivacyMode, Progress, ReadyClient, RequestDetail, SearchOptions, SearchResult } from 'dpr-web';
import { SearchClient } from 'dpr-web';
import type { Settings } from './settings.js';

/** The server is where the page came from. */
export const SERVER = new URL('.', document.baseURI);

/** Where a static index is, if the server hosts one beside this page. */
const STATIC_INDEX = new URL('dpr/dpr-static.json', SERVER);

/** What the server says of its index. */
interface IndexInfo {
  count: number;
  /** Whether it takes vectors; an earlier release does not say it. */
  plain?: boolean;
}

/** One client at a time: choosing another device ends the old one. */
export class Connection {
  readonly #onProgress: (event: Progress) => void;
  readonly #onRequest: (request: RequestDetail) => void;
  readonly #onModel: (model: ModelManifest) => void;
  #current: SearchClient | undefined;
  /** Search the static index, once that was chosen, one client for each of its modes. */
  readonly #static = new Map<Privacy, SearchClient>();
  #settings: Settings | undefined;
  /** What the server says of its index; `undefined` where it could not be asked. */
  readonly index: Promise<IndexInfo | undefined> = describedIndex();
  /** How much the server is shown of questions, while typing too. */
  privacy: Privacy = 'plain';
  /**
   * Waits until the server is known to offer the mode of `privacy`. Rejects where it does not; nothing of a question is
   * sent then.
   */
  permitted: () => Promise<void> = async () => {};
  /** Called when a client has loaded its encoder, also for a search while typing after a failure. */
  onReady: ((client: ReadyClient) => void) | undefined;

  /** @param onModel - called when the server has another model since, which the client has taken over */
  constructor(
    onProgress: (event: Progress) => void,
    onRequest: (request: RequestDetail) => void,
    onModel: (model: ModelManifest) => void,
  ) {
    this.#onProgress = onProgress;
    this.#onRequest = onRequest;
    this.#onModel = onModel;
  }

  /** Begins nothing: `open` has begun to load. For what takes a client. */
  async preload(): Promise<void> {
    await this.#current?.preload();
  }

  /** Loads the encoder with these settings. Rejects with a `DisposedError` when other settings replace it. */
  open(settings: Settings): Promise<ReadyClient> {
    this.#current?.dispose();
    for (const client of this.#static.values()) client.dispose();
    this.#static.clear();
    this.#settings = settings;
    const client = SearchClient.create(SERVER, {
      ...settings,
      // All tabs of the page have one engine, with the model in memory once.
      worker: 'shared',
      onProgress: (event) => {
        if (client === this.#current) this.#onProgress(event);
      },
    });
    client.addEventListener('request', ({ detail }) => this.#onRequest(detail));
    client.addEventListener('modelchange', ({ detail }) => {
      if (client === this.#current) this.#onModel(detail.to);
    });
    client.addEventListener('statechange', () => {
      if (client === this.#current && client.state === 'ready') this.onReady?.(client as ReadyClient);
    });
    this.#current = client;
    return client.ready;
  }

  /** The modes of the server; if the client is replaced meanwhile, its successor asks for them. */
  async #serverModes(): Promise<PrivacyMode[]> {
    for (;;) {
      const client = this.#current;
      if (!client) throw new Error('the encoder was not started');
      try {
        return [...(await client.privacyModes)];
      } catch (error) {
        if (client === this.#current) throw error;
      }
    }
  }

  /** The modes that can be searched in. */
  async modes(): Promise<PrivacyMode[]> {
    const modes = await this.#serverModes();
    const index = await staticIndex();
    if (!index) return modes;
    const free = { onceBytes: 0, upBytes: 0 };
    modes.push({ mode: 'local', ...free, downBytes: 0, sees: 'nothing: the index is downloaded once, and searched in this page' });
    // Four that the question is about and four decoys.
    if (index.buckets >= 8) {
      const each = Math.round(index.passages / index.buckets);
      const sees = `which 8 of ${index.buckets} buckets of some ${each} passages are fetched, 4 of them decoys`;
      modes.push({ mode: 'bucket', ...free, downBytes: undefined, sees });
    }
    return modes;
  }

  #searching(): SearchClient | undefined {
    const { privacy } = this;
    if (privacy !== 'local' && privacy !== 'bucket') return this.#current;
    let client = this.#static.get(privacy);
    if (!client) {
      client = SearchClient.create(STATIC_INDEX, { ...this.#settings, encoder: undefined, onProgress: this.#onProgress, privacy });
      client.addEventListener('request', ({ detail }) => this.#onRequest(detail));
      this.#static.set(privacy, client);
    }
    return client;
  }

  /**
   * Loads the reader, before a private search whose passages it is to read; if the client is replaced meanwhile, its
   * successor does. Rejects as an answer does.
   */
  async loadReader(signal: AbortSignal): Promise<void> {
    for (;;) {
      const client = this.#current;
      if (!client) throw new Error('the encoder was not started');
      try {
        await client.answer('', { privacy: this.privacy, hits: [], signal });
        return;
      } catch (error) {
        if (client === this.#current || signal.aborted) throw error;
      }
    }
  }

  /** Searches as soon as the encoder is there; if it is replaced meanwhile, its successor answers. */
  async search(question: string, options: SearchOptions): Promise<SearchResult> {
    await this.permitted();
    options.signal?.throwIfAborted();
    for (;;) {
      const client = this.#searching();
      if (!client) throw new Error('the encoder was not started');
      try {
        return await client.search(question, { privacy: this.privacy, ...options });
      } catch (error) {
        if (client === this.#current || client === this.#static.get(this.privacy) || options.signal?.aborted) throw error;
      }
    }
  }
}

async function describedIndex(): Promise<IndexInfo | undefined> {
  try {
    // The first search waits for it.
    const signal = AbortSignal.timeout(10_000);
    const answer = await fetch(new URL('v1/index', SERVER), { credentials: 'omit', referrerPolicy: 'no-referrer', signal });
    return answer.ok ? ((await answer.json()) as IndexInfo) : undefined;
  } catch {
    return undefined;
  }
}

/** The static index that the server hosts, if it does; where it has none, it may answer with a page. */
async function staticIndex(): Promise<{ passages: number; buckets: number } | undefined> {
  try {
    const answer = await fetch(STATIC_INDEX, { cache: 'no-cache', credentials: 'omit', referrerPolicy: 'no-referrer' });
    // The browser lists what was fetched once it is read.
    const text = await answer.text();
    if (!answer.ok || !(answer.headers.get('content-type') ?? '').includes('json')) return undefined;
    const { passages, buckets } = JSON.parse(text) as { passages: number; buckets?: { files: unknown[] } };
    return { passages, buckets: buckets?.files.length ?? 0 };
  } catch {
    return undefined;
  }
}
