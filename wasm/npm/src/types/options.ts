import type { Device, DeviceChoice, DtypeChoice } from './device.js';
import type { ExpectedModel } from './expected-model.js';
import type { Condition } from './metadata.js';
import type { ProgressListener } from './progress.js';

/** Options of {@link QuestionEncoder.load}. */
export interface LoadOptions {
  /**
   * Where to encode. `auto` (the default) measures both once per model and browser and remembers
   * the faster in `localStorage`; without WebGPU it is `cpu`, and the WebGPU module is not downloaded.
   * @example { device: 'cpu' }
   */
  device?: DeviceChoice;
  /**
   * Which weights file to download. `auto` (the default) is `f16` for `device: 'webgpu'`, else `q8`:
   * with `device: 'auto'` one q8 file serves the measurement on both devices and the work after it.
   * @example { dtype: 'f32' }
   */
  dtype?: DtypeChoice;
  /**
   * Called with each step of loading, and with `fallback` if the GPU is lost later.
   * @example { onProgress: (event) => console.log(event.status) }
   */
  onProgress?: ProgressListener;
  /**
   * Stops the loading; the promise rejects with the signal's reason and nothing stays behind.
   * @example { signal: AbortSignal.timeout(60_000) }
   */
  signal?: AbortSignal;
  /**
   * Makes the worker, for set-ups where `new URL('./worker-cpu.js', import.meta.url)` does not reach it
   * (a strict bundler, a CDN on another origin). It must run the module `dpr-web/worker`, or
   * `dpr-web/worker/cpu` or `dpr-web/worker/webgpu`, whichever is the device it is called with.
   * @example { createWorker: () => new Worker('/assets/dpr-web-worker.js', { type: 'module' }) }
   */
  createWorker?: (device: Device) => Worker;
  /**
   * Longest wait for a worker's first word, in milliseconds; an {@link EncoderError} says then which script
   * is silent. Default 10 000.
   * @example { startTimeout: 30_000 }
   */
  startTimeout?: number;
  /**
   * Where the WebAssembly files are, for set-ups that put them elsewhere than beside the worker's script.
   * They are `dpr-web/wasm/cpu/dpr_wasm_bg.wasm` and `dpr-web/wasm/webgpu/dpr_wasm_bg.wasm`.
   * @example { wasmUrl: { cpu: '/assets/cpu.wasm', webgpu: '/assets/webgpu.wasm' } }
   */
  wasmUrl?: Partial<Record<Device, string | URL>>;
  /**
   * Address that relative file addresses are resolved against when a manifest object is given.
   * Default: the document's address.
   * @example { baseUrl: 'https://example.org/models/minilm/' }
   */
  baseUrl?: string | URL;
  /**
   * What the page knows about the model beforehand. Another model is a {@link ModelMismatchError} before any of its
   * files is downloaded; without this option the page runs whatever encoder the server names.
   * @example { expect: { fingerprint: '53aa…', sha256: { q8: '9d31…', config: '02f4…', tokenizer: 'be50…' } } }
   */
  expect?: ExpectedModel;
  /**
   * Extra headers for requests to the server, e.g. an API key: for the manifest, the model files and searches, on the
   * manifest's origin alone. The package itself sets `content-type: application/json` on searches, `range` on
   * downloads that broke, and nothing else.
   * @example { headers: { 'x-api-key': key } }
   */
  headers?: Record<string, string>;
  /**
   * Whether cookies travel with those requests. Default `omit` for {@link SearchClient.connect}, `same-origin` for
   * {@link QuestionEncoder.load}.
   * @example { credentials: 'same-origin' }
   */
  credentials?: RequestCredentials;
  /**
   * What makes those requests instead of the browser's `fetch`: for keys that are renewed, or for tests. The worker
   * fetches its WebAssembly module itself.
   * @example { fetch: (url, init) => myAuth.fetch(url, init) }
   */
  fetch?: typeof fetch;
  /**
   * Keeps the files of models that this address served before. By default they are removed from the browser's cache once
   * the current model has started, and so are files of addresses that were not visited for 90 days.
   * @example { keepOldModels: true }
   */
  keepOldModels?: boolean;
}

/** Options of {@link SearchClient.connect}; `baseUrl` is not used there. */
export type ConnectOptions = LoadOptions;

/** Options of {@link QuestionEncoder.encode}. */
export interface EncodeOptions {
  /**
   * Stops waiting for the vector; the promise rejects with the signal's reason.
   * @example { signal: controller.signal }
   */
  signal?: AbortSignal;
}

/** Options of {@link SearchClient.search}. */
export interface SearchOptions extends EncodeOptions {
  /**
   * How many passages to return, 1 up to the server's limit. Default 10.
   * @example { k: 5 }
   */
  k?: number;
  /**
   * Longest wait for the server's answer, in milliseconds; a {@link ServerError} with the code `timeout` then. Default
   * 30 000.
   * @example { timeout: 5_000 }
   */
  timeout?: number;
  /**
   * Finds only passages with one of these titles and one of these ids, where any are given, and with metadata for which
   * the condition holds. It travels as it is: a filter tells the server what the question is about.
   * @example { filter: { titles: ['Super Bowl 50'] } }
   * @example { filter: { metadata: { field: 'year', gte: 2000, lt: 2010 } } }
   */
  filter?: PassageFilter;
}

/** Which passages a search may find. */
export interface PassageFilter {
  /** At most 1000; none leaves all. */
  titles?: string[];
  /** At most 1000; none leaves all. */
  ids?: string[];
  /** None leaves all. */
  metadata?: Condition;
}
