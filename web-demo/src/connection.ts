import { SearchClient, type Progress, type SearchOptions, type SearchResult } from 'dpr-web';
import type { Settings } from './settings.js';

/** The server is where the page came from. */
const SERVER = new URL('.', document.baseURI);

/** One client at a time: choosing another device ends the old one. */
export class Connection {
  readonly #onProgress: (event: Progress) => void;
  #current: { client: Promise<SearchClient>; stop: AbortController } | undefined;

  constructor(onProgress: (event: Progress) => void) {
    this.#onProgress = onProgress;
  }

  /** Loads the encoder with these settings. Rejects with an `AbortError` when other settings replace it. */
  open(settings: Settings): Promise<SearchClient> {
    this.#close();
    const stop = new AbortController();
    const client = SearchClient.connect(SERVER, {
      ...settings,
      signal: stop.signal,
      onProgress: (event) => {
        if (!stop.signal.aborted) this.#onProgress(event);
      },
    });
    this.#current = { client, stop };
    return client;
  }

  /** Searches as soon as the encoder is there; if it is replaced meanwhile, its successor answers. */
  async search(question: string, options: SearchOptions): Promise<SearchResult> {
    for (;;) {
      const current = this.#current;
      if (!current) throw new Error('the encoder was not started');
      try {
        const client = await current.client;
        options.signal?.throwIfAborted();
        return await client.search(question, options);
      } catch (error) {
        if (current === this.#current || options.signal?.aborted) throw error;
      }
    }
  }

  #close(): void {
    const old = this.#current;
    old?.stop.abort();
    void old?.client.then(
      (client) => client.dispose(),
      () => undefined,
    );
  }
}
