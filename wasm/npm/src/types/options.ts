import type { AnswerProgress } from './answer.js';
import type { Device, DeviceChoice, DtypeChoice, WasmBuild } from './device.js';
import type { ExpectedIndex, ExpectedModel } from './expected-model.js';
import type { Condition } from './metadata.js';
import type { NetworkOptions } from './network.js';
import type { Privacy, PrivacyOptions } from './privacy.js';
import type { ProgressListener } from './progress.js';
import type { Hit } from './search-result.js';

/** Options of {@link QuestionEncoder.load}. */
export interface LoadOptions extends NetworkOptions {
  /**
   * Where to encode. `auto` (the default) starts on the CPU, times WebGPU meanwhile, goes on with the faster and
   * remembers it in `localStorage` per model and browser; without WebGPU it is `cpu`, and the WebGPU module is not
   * downloaded.
   * @example { device: 'cpu' }
   */
  device?: DeviceChoice | undefined;
  /**
   * Whether `device: 'auto'` times WebGPU where it is not known yet which device is faster. `background` (the default)
   * downloads the WebGPU module and keeps the weights in memory twice while it does, after the CPU is ready. `never`
   * stays on the CPU, and so does a browser that saves data.
   * @example { measure: 'never' }
   */
  measure?: 'background' | 'never' | undefined;
  /**
   * Which weights file to download. `auto` (the default) is `f16` for `device: 'webgpu'`, else `q8`:
   * with `device: 'auto'` one q8 file serves the measurement on both devices and the work after it. `q4` is half of `q8`
   * and finds nearly the same passages; `auto` takes it where the operator exported no other that suits the device.
   * @example { dtype: 'f32' }
   */
  dtype?: DtypeChoice | undefined;
  /**
   * Called with each step of loading, with `ready` again when another device takes over, and with `fallback` if the GPU
   * is lost later. What it throws goes to `reportError`. A client has the same as the event `progress`.
   * @example { onProgress: (event) => console.log(event.status) }
   */
  onProgress?: ProgressListener | undefined;
  /**
   * Stops the loading; the promise rejects with the signal's reason and nothing stays behind.
   * @example { signal: AbortSignal.timeout(60_000) }
   */
  signal?: AbortSignal | undefined;
  /**
   * `shared`: on the CPU, all tabs of the origin and all clients in them use one worker, with the model in memory once.
   * Each tab's questions take turns; the last to leave ends the worker. Where the browser has no shared workers (or no
   * Web Locks), or the worker fails, it is a dedicated one, and so is every worker for WebGPU. Browsers may not keep a
   * page with a shared worker for the way back (bfcache). Default `dedicated`.
   * @example { worker: 'shared' }
   */
  worker?: 'dedicated' | 'shared' | undefined;
  /**
   * Makes the worker, for set-ups where `new URL('./worker-cpu.js', import.meta.url)` does not reach it
   * (a strict bundler, a CDN on another origin). It must run the module `dpr-web/worker`, or
   * `dpr-web/worker/cpu` or `dpr-web/worker/webgpu`, whichever is the device it is called with. With `worker: 'shared'`
   * it may return a `SharedWorker` that runs `dpr-web/worker/shared` for the device `cpu`.
   * @example { createWorker: () => new Worker('/assets/dpr-web-worker.js', { type: 'module' }) }
   */
  createWorker?: ((device: Device) => Worker | SharedWorker) | undefined;
  /**
   * Longest wait for the first word of workers, in milliseconds; an {@link EncoderError} says then which script
   * is silent. A worker after which another is tried (WebGPU, a shared one) has half of it, the next one the rest.
   * Default 10 000.
   * @example { startTimeout: 30_000 }
   */
  startTimeout?: number | undefined;
  /**
   * Where the WebAssembly files are, for set-ups that put them elsewhere than beside the worker's script.
   * They are `dpr-web/wasm/cpu/dpr_wasm_bg.wasm`, `dpr-web/wasm/relaxed/dpr_wasm_bg.wasm` and
   * `dpr-web/wasm/webgpu/dpr_wasm_bg.wasm`. With `cpu` and without `relaxed`, engines with relaxed SIMD get `cpu`,
   * which is slower.
   * @example { wasmUrl: { cpu: '/assets/cpu.wasm', relaxed: '/assets/relaxed.wasm', webgpu: '/assets/webgpu.wasm' } }
   */
  wasmUrl?: Partial<Record<WasmBuild, string | URL>> | undefined;
  /**
   * Address that relative file addresses are resolved against when a manifest object is given.
   * Default: the document's address.
   * @example { baseUrl: 'https://example.org/models/minilm/' }
   */
  baseUrl?: string | URL | undefined;
  /**
   * What the page knows about the model beforehand. Another model is a {@link ModelMismatchError} before any of its
   * files is downloaded; without this option the page runs whatever encoder the server names.
   * @example { expect: { fingerprint: '53aa…', sha256: { q8: '9d31…', config: '02f4…', tokenizer: 'be50…' } } }
   */
  expect?: ExpectedModel | undefined;
  /**
   * Keeps the files of models that this address served before. By default they are removed from the browser's cache
   * once the current model has started, and so are files of addresses that were not visited for 90 days. Kept files
   * stay until a client of this origin without the option has started, or `keepOffline().activate` has run.
   * @example { keepOldModels: true }
   */
  keepOldModels?: boolean | undefined;
}

/** Options of {@link SearchClient.create} and {@link SearchClient.connect}; `baseUrl` is not used there. */
export interface ConnectOptions extends LoadOptions {
  /**
   * Longest wait for the server's answer to a search, with further tries, in milliseconds, where the search does not
   * say it. Default 30 000.
   * @example { timeout: 5_000 }
   */
  timeout?: number | undefined;
  /**
   * Which question encoder of the server to load: its own (the default), or `small`, the one that was distilled from it
   * (`dpr serve --small`), for a part of the bytes and of the time. Both search the same passages. Where the server has no
   * small one, loading is a {@link DownloadError} of status 404. A static index has one encoder: with `local` and `bucket`
   * the option is an {@link OptionError}. A reader belongs to one encoder: for `small`, that of the small model's own
   * export answers and re-ranks.
   * @example { encoder: 'small' }
   */
  encoder?: 'small' | undefined;
  /**
   * As in {@link LoadOptions}; with `privacy: 'local'` or `'bucket'`, `index` is the static index that is expected.
   * @example { privacy: 'local', expect: { fingerprint: '53aa…', index: '9d31…' } }
   */
  expect?: ExpectedIndex | undefined;
  /**
   * How much the server is shown of questions, where the search does not say it. A mode that the server does not offer
   * is a {@link PrivacyError}, never a plainer search. With `local` and `bucket`, the client's address is that of a
   * `dpr-static.json`, and all its searches are in that mode. Default `plain`.
   * @example { privacy: 'encrypted' }
   * @example { privacy: 'local' }
   * @example { privacy: { mode: 'bucket', probes: 4, decoys: 8 } }
   * @example { privacy: { mode: 'blurred', level: 'strong' } }
   */
  privacy?: Privacy | PrivacyOptions | undefined;
}

/** Options of {@link QuestionEncoder.encode}. */
export interface EncodeOptions {
  /**
   * Takes the question back; the promise rejects with the signal's reason. One that waits behind others is not encoded.
   * @example { signal: controller.signal }
   */
  signal?: AbortSignal | undefined;
}

/** Options of {@link SearchClient.search}. */
export interface SearchOptions extends EncodeOptions {
  /**
   * How many passages to return, 1 up to the server's limit. Default 10.
   * @example { k: 5 }
   */
  k?: number | undefined;
  /**
   * Longest wait for the server's answer, with further tries, in milliseconds; a {@link ServerError} with the code
   * `timeout` then. Default 30 000.
   * @example { timeout: 5_000 }
   */
  timeout?: number | undefined;
  /**
   * Finds only passages with one of these titles and one of these ids, where any are given, and with metadata for which
   * the condition holds. It travels as it is: a filter tells the server what the question is about.
   * @example { filter: { titles: ['Super Bowl 50'] } }
   * @example { filter: { metadata: { field: 'year', gte: 2000, lt: 2010 } } }
   */
  filter?: PassageFilter | undefined;
  /**
   * Puts the best passages into a better order, in the page: each is read together with the question, by the server's
   * `reranker`, or else its `reader`. The model is downloaded when it is first used; with `privacy`, before the search.
   * Where that fails, or the server offers neither, the passages are in the server's order, and the result says so
   * (`reranked`).
   * @example { k: 5, rerank: { depth: 20 } }
   */
  rerank?: RerankOptions | undefined;
  /**
   * How much the server is shown of this question. Default: as the client was made.
   * @example { privacy: 'blurred' }
   */
  privacy?: Privacy | PrivacyOptions | undefined;
}

/** How to re-rank. */
export interface RerankOptions {
  /**
   * How many passages to re-rank, 1 up to the server's limit of a search; the others stay behind them. Default 20; 10,
   * which is the most, where the search is encrypted.
   */
  depth?: number | undefined;
}

/** Options of {@link SearchClient.answer}. */
export interface AnswerOptions extends EncodeOptions {
  /**
   * How many passages to read, 1 up to the server's limit of a search. More of them hold the answer more often, and
   * take longer. Default 20; 10, which is the most, where the search is encrypted.
   * @example { depth: 10 }
   */
  depth?: number | undefined;
  /**
   * Passages to read, in the place of those of a search: nothing is sent then, and `depth`, `filter` and `timeout` mean
   * nothing. Where they are of a private search, call `answer` with `privacy` and an empty list before that: the reader
   * is downloaded then, and not after the search, which would tell the server that it has succeeded.
   * @example { hits: (await client.search(question, { k: 20 })).hits }
   */
  hits?: readonly Hit[] | undefined;
  /** How many answers to return at most, each of another passage. Default 1. */
  count?: number | undefined;
  /** Tokens of the longest answer, before it is extended to whole words. Default 10, as in the paper. */
  maxAnswerTokens?: number | undefined;
  /**
   * Called whenever a passage has been read, with the answers so far. What it throws goes to `reportError`.
   * @example { onAnswer: ({ answers, read, total }) => show(answers[0], read / total) }
   */
  onAnswer?: ((progress: AnswerProgress) => void) | undefined;
  /** As in {@link SearchOptions}. */
  timeout?: number | undefined;
  /** As in {@link SearchOptions}. */
  filter?: PassageFilter | undefined;
  /**
   * As in {@link SearchOptions}: of the search. The passages are read in the page in each mode; in private ones the
   * reader is downloaded before the search.
   */
  privacy?: Privacy | PrivacyOptions | undefined;
}

/** Which passages a search may find. */
export interface PassageFilter {
  /** At most 1000; none leaves all. */
  titles?: string[] | undefined;
  /** At most 1000; none leaves all. */
  ids?: string[] | undefined;
  /** None leaves all. */
  metadata?: Condition | undefined;
}
