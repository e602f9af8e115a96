import { forgetDevice } from '../device/remembered-device.js';
import { DisposedError } from '../errors/disposed-error.js';
import { EncoderError } from '../errors/encoder-error.js';
import type { Device, Dtype } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import type { EncodeOptions, LoadOptions } from '../types/options.js';
import { fetchManifest } from '../weights/model-files.js';
import { evictOldModels, noteModel } from '../weights/old-models.js';
import { requireExpected } from '../weights/require-expected.js';
import { parseManifest } from '../wire/parse-manifest.js';
import { pageAddress } from '../wire/page-address.js';
import { transport } from '../wire/transport.js';
import { workerSource } from '../worker/worker-source.js';
import { untilAborted } from './until-aborted.js';
import { restartOnCpu, startEncoder, type Started, type StartSettings } from './start-encoder.js';
import { SessionEnded, type WorkerSession } from './worker-session.js';

/**
 * Turns questions into vectors inside this browser, in a worker. Make one and keep it: loading
 * takes seconds, encoding milliseconds.
 *
 * @example
 * const encoder = await QuestionEncoder.load('/v1/model', { device: 'cpu' });
 * const vector = await encoder.encode('who won super bowl 50'); // Float32Array, encoder.dim numbers
 * encoder.dispose();
 */
export class QuestionEncoder {
  /** The model's manifest, with absolute file addresses, and those weights that `expect` allows. */
  readonly model: ModelManifest;
  readonly #settings: StartSettings;
  /** Ends a restart that is under way when the encoder is disposed. */
  readonly #lifetime = new AbortController();
  #started: Started;
  /** While a lost GPU is replaced: settles when the CPU has taken over, or could not. */
  #restart: Promise<void> | undefined;

  private constructor(model: ModelManifest, settings: StartSettings, started: Started) {
    this.model = model;
    this.#settings = { ...settings, signal: this.#lifetime.signal };
    this.#started = started;
    this.#watch(started.session);
  }

  /**
   * Downloads a model (from the cache when it was here before), checks it, starts the encoder and
   * warms it up.
   *
   * @param source - address of a manifest (`GET /v1/model` of a server, or a file of that form), or the manifest itself
   * @throws {@link ManifestError}, {@link ModelMismatchError}, {@link DownloadError}, {@link IntegrityError},
   * {@link InsecureContextError}, {@link EncoderError}, or the signal's reason
   */
  static async load(source: string | URL | ModelManifest, options: LoadOptions = {}): Promise<QuestionEncoder> {
    const { signal } = options;
    const base = options.baseUrl === undefined ? pageAddress() : new URL(options.baseUrl, pageAddress());
    const address = typeof source === 'string' || source instanceof URL ? new URL(source, base).href : undefined;
    const requests = transport(options, address ?? base, 'same-origin');
    const offered =
      address === undefined ? parseManifest(source, base) : await fetchManifest(address, requests, signal);
    const manifest = requireExpected(offered, options.expect);
    const settings: StartSettings = {
      device: options.device ?? 'auto',
      dtype: options.dtype ?? 'auto',
      onProgress: options.onProgress ?? (() => undefined),
      workers: workerSource(options),
      requests,
      signal,
    };
    const noted = noteModel(address ?? String(base ?? ''), offered);
    const started = await startEncoder(manifest, settings);
    // Nobody waits for it, and it never fails.
    if (!options.keepOldModels) void noted.then(() => evictOldModels());
    return new QuestionEncoder(manifest, settings, started);
  }

  /** Where questions are encoded now. Changes from `webgpu` to `cpu` if the GPU is lost. */
  get device(): Device {
    return this.#started.session.device;
  }

  /** The weights format in use. */
  get dtype(): Dtype {
    return this.#started.dtype;
  }

  /** Numbers in a vector. */
  get dim(): number {
    return this.model.dim;
  }

  /**
   * Encodes one question. Several at once are encoded one after another, in the order of the calls.
   * If the GPU is lost meanwhile, the CPU answers.
   *
   * @returns `[dim]` numbers
   * @throws {@link DisposedError}, {@link EncoderError}, or the signal's reason
   */
  async encode(text: string, options: EncodeOptions = {}): Promise<Float32Array> {
    const { signal } = options;
    signal?.throwIfAborted();
    return untilAborted(this.#encode(text), signal);
  }

  /**
   * Ends the worker and frees its memory, the GPU's included. What is being encoded rejects with
   * {@link DisposedError}. Calling it again does nothing.
   */
  dispose(): void {
    if (this.#lifetime.signal.aborted) return;
    const reason = new DisposedError('QuestionEncoder');
    this.#lifetime.abort(reason);
    this.#started.session.end(reason);
  }

  async #encode(text: string): Promise<Float32Array> {
    for (;;) {
      this.#lifetime.signal.throwIfAborted();
      if (this.#restart) await this.#restart;
      const { session } = this.#started;
      try {
        return await session.encode(text);
      } catch (error) {
        this.#lifetime.signal.throwIfAborted();
        if (session.device === 'webgpu' && error instanceof SessionEnded) {
          // The GPU is gone: once around again, on the CPU.
          this.#replace(session, error);
          continue;
        }
        const fix = error instanceof SessionEnded ? error.fix : 'Change the question and search again.';
        throw new EncoderError(`the question could not be encoded: ${(error as Error).message}`, fix, { cause: error });
      }
    }
  }

  #watch(session: WorkerSession): void {
    if (session.device === 'webgpu') session.onFatal = (reason) => this.#replace(session, reason);
  }

  /** Puts the CPU in the place of a WebGPU session, once, however many questions find it broken. */
  #replace(session: WorkerSession, reason: Error): void {
    if (this.#started.session !== session || this.#restart || this.#lifetime.signal.aborted) return;
    const { onProgress } = this.#settings;
    this.#restart = (async () => {
      // Ends this session first: its memory is free before the next one asks for some.
      session.end(reason);
      forgetDevice(this.model.fingerprint);
      onProgress({ status: 'fallback', from: 'webgpu', to: 'cpu', reason: reason.message });
      const started = await restartOnCpu(this.model, this.#started.dtype, this.#settings);
      if (this.#lifetime.signal.aborted) started.session.end(this.#lifetime.signal.reason as Error);
      this.#started = started;
    })();
    this.#restart.then(
      () => (this.#restart = undefined),
      // Stays rejected: each later question gets the reason why the CPU could not take over.
      () => undefined,
    );
  }
}
