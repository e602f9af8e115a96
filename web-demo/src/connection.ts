import type { ModelManifest, Privacy, PrivacyMode, Progress, ReadyClient, RequestDetail, SearchOptions, SearchResult } from 'dpr-web';
import { SearchClient } from 'dpr-web';
import type { Settings } from './settings.js';

/** The server is where the page came from. */
export const SERVER = new URL('.', document.baseURI);

/** Where a static index is, if the server hosts one beside this page. */
const STATIC_INDEX = new URL('dpr/dpr-static.json', SERVER);

/** One client at a time: choosing another device ends the old one. */
export class Connection {
  readonly #onProgress: (event: Progress) => void;
  readonly #onRequest: (request: RequestDetail) => void;
  readonly #onModel: (model: ModelManifest) => void;
  #current: SearchClient | undefined;
  /** Searches the static index, once that was chosen. */
  #local: SearchClient | undefined;
  #settings: Settings | undefined;
  /** How much the server is shown of questions, while typing too. */
  privacy: Privacy = 'plain';

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
    this.#local?.dispose();
    this.#local = undefined;
    this.#settings = settings;
    const client = SearchClient.create(SERVER, {
      ...settings,
      onProgress: (event) => {
        if (client === this.#current) this.#onProgress(event);
      },
    });
    client.addEventListener('request', ({ detail }) => this.#onRequest(detail));
    client.addEventListener('modelchange', ({ detail }) => {
      if (client === this.#current) this.#onModel(detail.to);
    });
    this.#current = client;
    return client.ready;
  }

  /** The modes that can be searched in. */
  async modes(): Promise<PrivacyMode[]> {
    const modes = (await this.#current?.privacyModes) ?? [];
    const local = { onceBytes: 0, upBytes: 0, downBytes: 0, sees: 'nothing: the index is downloaded once, and searched in this page' };
    return (await hasStaticIndex()) ? [...modes, { mode: 'local', ...local }] : modes;
  }

  #searching(): SearchClient | undefined {
    if (this.privacy !== 'local') return this.#current;
    this.#local ??= SearchClient.create(STATIC_INDEX, { ...this.#settings, onProgress: this.#onProgress, privacy: 'local' });
    return this.#local;
  }

  /** Searches as soon as the encoder is there; if it is replaced meanwhile, its successor answers. */
  async search(question: string, options: SearchOptions): Promise<SearchResult> {
    for (;;) {
      const client = this.#searching();
      if (!client) throw new Error('the encoder was not started');
      try {
        return await client.search(question, { privacy: this.privacy, ...options });
      } catch (error) {
        if (client === this.#current || client === this.#local || options.signal?.aborted) throw error;
      }
    }
  }
}

/** Whether the server hosts a static index; where it has none, it may answer with a page. */
async function hasStaticIndex(): Promise<boolean> {
  try {
    const answer = await fetch(STATIC_INDEX, { method: 'HEAD', credentials: 'omit', referrerPolicy: 'no-referrer' });
    return answer.ok && (answer.headers.get('content-type') ?? '').includes('json');
  } catch {
    return false;
  }
}
