import type { ModelManifest } from '../types/manifest.js';
import type { DeviceChange, Progress } from '../types/progress.js';
import type { SentRequest } from '../types/search-result.js';

/** How far a `SearchClient` is. `failed`: the encoder could not be loaded; the next search tries again. */
export type ClientState = 'idle' | 'loading' | 'ready' | 'failed' | 'disposed';

/** What became of a request: an answer that could be used, an error, or an abort before either. */
export type RequestOutcome = 'answered' | 'failed' | 'aborted';

/** The detail of the event `request`. */
export interface RequestDetail {
  /** Counts the requests of this client, from 1. */
  id: number;
  request: SentRequest;
  /** Never rejects. */
  outcome: Promise<RequestOutcome>;
}

/** The events of `SearchClient`. */
export interface ClientEvents {
  /**
   * A search was handed to `fetch`, just now: every one, whether it is answered, fails or is aborted, and every further
   * try.
   * @example client.addEventListener('request', ({ detail }) => list.add(detail.request, detail.outcome));
   */
  request: CustomEvent<RequestDetail>;
  /**
   * The server refused a search because it has another model now, and that is loaded: it encodes questions from now on,
   * the search is sent again, and the files of the old one leave the browser's cache.
   * @example client.addEventListener('modelchange', ({ detail }) => console.log(detail.to.name));
   */
  modelchange: CustomEvent<{ from: ModelManifest; to: ModelManifest }>;
  /**
   * Questions are encoded on another device from now on, and `client.device` has changed: from the CPU to WebGPU, which
   * turned out to be faster, or from a GPU that was lost to the CPU. Those in flight are answered.
   * @example client.addEventListener('devicechange', ({ detail }) => console.log(detail.from, detail.to, detail.reason));
   */
  devicechange: CustomEvent<DeviceChange>;
  /**
   * What `onProgress` gets as well: how far downloads of this client are, those of its reader and of an index included.
   * @example
   * client.addEventListener('progress', ({ detail }) => {
   *   if (detail.status === 'progress') bar.value = detail.loaded / detail.total;
   * });
   */
  progress: CustomEvent<Progress>;
  /** `client.state` has changed. */
  statechange: Event;
}

/** An `EventTarget` whose events are known by name. */
export interface TypedEventTarget<Events> extends EventTarget {
  addEventListener<K extends keyof Events & string>(
    type: K,
    listener: (event: Events[K]) => void,
    options?: AddEventListenerOptions | boolean,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: AddEventListenerOptions | boolean,
  ): void;
  removeEventListener<K extends keyof Events & string>(
    type: K,
    listener: (event: Events[K]) => void,
    options?: EventListenerOptions | boolean,
  ): void;
  removeEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: EventListenerOptions | boolean,
  ): void;
}
