import { DisposedError } from '../errors/disposed-error.js';
import { EncoderError } from '../errors/encoder-error.js';
import type { Device, Dtype } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import { asyncDispose, dispose } from '../types/disposable.js';
import type { EncodeOptions, LoadOptions } from '../types/options.js';
import { expected } from '../weights/expected.js';
import { fetchManifest } from '../weights/fetch-manifest.js';
import { manifestParts } from '../weights/manifest-parts.js';
import { openCache } from '../weights/open-cache.js';
import { address } from '../wire/address.js';
import { loaded } from '../wire/loaded.js';
import { pageAddress } from '../wire/page-address.js';
import { transport } from '../wire/transport.js';
import { orderSettings } from '../worker/file-order.js';
import type { Reply } from '../worker/protocol.js';
import { workerSource } from '../worker/worker-source.js';
import { safely } from './safely.js';
import { untilAborted } from '../wire/until-aborted.js';
import { startEncoder, type Started } from './start-encoder.js';
import type { StartSettings } from './start-settings.js';
import { SessionEnded } from './worker-failure.js';
import type { CommandBody, WorkerSession } from './worker-session.js';

/** What is needed after the start. */
const later = (): Promise<typeof import('./later.js')> => loaded(import('./later.js'));

/** How often a question is tried while workers end under it. */
const MOST_ATTEMPTS = 3;

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
  /** Ends what is under way when the encoder is disposed. */
  readonly #lifetime: AbortController;
  #started: Started;
  /** While a lost worker is replaced: settles when the CPU has taken over, or could not. */
  #restart: Promise<void> | undefined;

  private constructor(model: ModelManifest, settings: StartSettings, lifetime: AbortController, started: Started) {
    this.model = model;
    this.#settings = settings;
    this.#lifetime = lifetime;
    this.#started = started;
    this.#watch(started.session);
    void started.faster?.then((session) => session && this.#switch(session));
  }

  /**
   * Downloads a model (from the cache when it was here before), checks it, starts the encoder and
   * warms it up.
   *
   * @param source - address of a manifest (`GET /v1/model` of a server, or a file of that form), or the manifest itself
   * @param previous - an encoder of the same source: returned as it is where the model is still the same. Otherwise it
   * goes on, until it is disposed
   * @throws {@link ManifestError}, {@link ModelMismatchError}, {@link DownloadError}, {@link IntegrityError},
   * {@link InsecureContextError}, {@link EncoderError}, {@link OptionError}, or the signal's reason
   */
  static async load(
    source: string | URL | ModelManifest,
    options: LoadOptions = {},
    previous?: QuestionEncoder,
  ): Promise<QuestionEncoder> {
    const { signal } = options;
    const base = options.baseUrl === undefined ? pageAddress() : address(options.baseUrl, '`baseUrl`');
    const isAddress = typeof source === 'string' || source instanceof URL;
    const url = isAddress ? address(source, 'the manifest', base).href : undefined;
    const requests = transport(options, url ?? base, 'same-origin');
    const offered =
      url === undefined
        ? (await manifestParts.reader()).parseManifest(source, base)
        : await fetchManifest(url, requests, signal, manifestParts);
    const manifest = await expected(offered, options.expect);
    if (previous?.model.fingerprint === manifest.fingerprint) return previous;
    const lifetime = new AbortController();
    const settings: StartSettings = {
      device: options.device ?? 'auto',
      dtype: options.dtype ?? 'auto',
      measures: options.measure !== 'never',
      onProgress: safely(options.onProgress),
      workers: await workerSource(options),
      requests,
      order: (await keepsFiles()) ? orderSettings(options, url ?? base?.toString()) : undefined,
      signal,
      life: lifetime.signal,
    };
    const starting = startEncoder(manifest, settings);
    // Nobody waits for it. A manifest without an address is told from others by its first file's: the page's own would
    // hold its question.
    later()
      .then((part) =>
        part.tidy(url ?? offered.encoder.config.url, offered, starting, options.keepOldModels, previous?.model),
      )
      .catch(() => undefined);
    let started: Started | undefined;
    try {
      started = await starting;
      signal?.throwIfAborted();
    } catch (error) {
      lifetime.abort(error);
      started?.session.end(error as Error);
      throw error;
    }
    return new QuestionEncoder(manifest, settings, lifetime, started);
  }

  /** Where questions are encoded now. Changes when the GPU is lost, and when `auto` finds it to be faster. */
  get device(): Device {
    return this.#started.session.device;
  }

  /** The weights format in use. */
  get dtype(): Dtype {
    return this.#started.dtype;
  }

  /** Whether other clients of this origin use the same worker: with `worker: 'shared'`, while it lasts. */
  get isShared(): boolean {
    return this.#started.session.isShared;
  }

  /**
   * The worker in which an encoder encodes now, for other parts of this package.
   * @internal
   */
  static session(encoder: QuestionEncoder): unknown {
    return encoder.#started.session;
  }

  /** Numbers in a vector. */
  get dim(): number {
    return this.model.dim;
  }

  /**
   * Encodes one question. Several at once are encoded one after another, in the order of the calls; one whose signal
   * fires while it waits is not encoded. If the GPU is lost meanwhile, the CPU answers.
   *
   * @returns `[dim]` numbers
   * @throws {@link DisposedError}, {@link EncoderError}, or the signal's reason; {@link DownloadError} or
   * {@link IntegrityError} when a lost worker could not be replaced, which the next question tries again
   */
  encode(text: string, options: EncodeOptions = {}): Promise<Float32Array> {
    return this.#ask({ type: 'encode', text }, 'vector', options).then(({ vector }) => vector);
  }

  /**
   * Encodes several questions, one after another. What is asked meanwhile waits for one of them, not for all.
   *
   * @returns `[dim]` numbers for each, in their order
   * @throws what {@link QuestionEncoder.encode} throws; the rest is not encoded then
   *
   * @example const vectors = await encoder.encodeMany(['who won super bowl 50', 'who played in it']);
   */
  async encodeMany(texts: readonly string[], options: EncodeOptions = {}): Promise<Float32Array[]> {
    const vectors: Float32Array[] = [];
    for (const text of texts) vectors.push(await this.encode(text, options));
    return vectors;
  }

  /**
   * Returns the number of tokens of a question as the encoder sees it, with its prompt and the special tokens. It is at
   * most `model.max_question_tokens`: where it is as many, the rest of the question may be cut off.
   *
   * @throws what {@link QuestionEncoder.encode} throws
   *
   * @example const isLong = (await encoder.countTokens(text)) >= encoder.model.max_question_tokens;
   */
  countTokens(text: string, options: EncodeOptions = {}): Promise<number> {
    return this.#ask({ type: 'count', text }, 'counted', options).then(({ tokens }) => tokens);
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

  /** {@link QuestionEncoder.dispose}, for `using encoder = …`. */
  [dispose](): void {
    this.dispose();
  }

  /** {@link QuestionEncoder.dispose}, for `await using encoder = …`. */
  async [asyncDispose](): Promise<void> {
    this.dispose();
  }

  #ask<T extends Reply['type']>(command: CommandBody, answer: T, { signal }: EncodeOptions): Promise<Extract<Reply, { type: T }>> {
    return untilAborted(
      this.#tried((session) => session.ask(command, answer, { signal }), signal),
      signal,
    );
  }

  async #tried<T>(ask: (session: WorkerSession) => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      this.#lifetime.signal.throwIfAborted();
      signal?.throwIfAborted();
      await this.#restart;
      const { session } = this.#started;
      try {
        return await ask(session);
      } catch (error) {
        this.#lifetime.signal.throwIfAborted();
        signal?.throwIfAborted();
        const isLost = error instanceof SessionEnded;
        if (isLost) {
          this.#replace(session, error);
          // The GPU is gone: once around again, on the CPU. One that ended the CPU's worker would end the next one too.
          if (attempt < MOST_ATTEMPTS && (session.device === 'webgpu' || !error.begun)) continue;
        }
        const { fix, code } = isLost ? error : { fix: 'Change the question and search again.', code: undefined };
        const { message } = error as Error;
        throw new EncoderError(`the question could not be encoded: ${message}`, fix, code, { cause: error });
      }
    }
  }

  #watch(session: WorkerSession): void {
    // The CPU's is replaced when the next question finds it ended: one that ends each time must not start for ever.
    if (session.device === 'webgpu') session.onFatal = (reason) => this.#replace(session, reason);
  }

  /** Goes on with the faster device; what waits for the other is still answered there. */
  #switch(session: WorkerSession): void {
    const reason = new Error('WebGPU is faster');
    if (this.#lifetime.signal.aborted || this.#restart) {
      session.end(reason);
      return;
    }
    this.#watch(session);
    this.#started.session.finish(reason);
    this.#use(session, reason);
  }

  /** Encodes in another session from now on, and says so: with the `change` where the device is another one. */
  #use(session: WorkerSession, { message: reason }: Error): void {
    const { session: { device: from }, dtype } = this.#started;
    const { device } = session;
    this.#started = { session, dtype };
    this.#settings.onProgress({ status: 'ready', device, dtype, ...(device !== from && { change: { from, to: device, reason } }) });
  }

  /** Puts the CPU in the place of a session that ended, once, however many questions find it so. */
  #replace(session: WorkerSession, reason: Error): void {
    const { signal: life } = this.#lifetime;
    if (this.#started.session !== session || this.#restart || life.aborted) return;
    // First: its memory is free before the next one asks for some.
    session.end(reason);
    // If it fails, those who wait hear of it, and the next question tries again.
    this.#restart = later()
      .then((part) => part.restart(this.model, this.#started, reason, this.#settings))
      .then((other) => (life.aborted ? other.end(life.reason as Error) : this.#use(other, reason)))
      .finally(() => (this.#restart = undefined));
    this.#restart.catch(() => undefined);
  }
}

/** Whether files that a worker downloads are there for the next one, and for other tabs that want them meanwhile. */
async function keepsFiles(): Promise<boolean> {
  return (globalThis.navigator as Partial<Navigator> | undefined)?.locks !== undefined && (await openCache()) !== undefined;
}
