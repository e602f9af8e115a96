/** {@link DprWebError.retryAfter} for an error that has a cause in an answer. */
export interface DprErrorOptions extends ErrorOptions {
  retryAfter?: number | undefined;
}

/**
 * What every error thrown by this package has in common: a message that says what happened, a sentence that says what
 * to do about it, and a code that stays the same when the words change.
 *
 * @example
 * try {
 *   await client.search('who won super bowl 50');
 * } catch (error) {
 *   if (error instanceof DprWebError) show(translations[error.code] ?? error.message, error.fix);
 *   else throw error;
 * }
 */
export abstract class DprWebError extends Error {
  /** What the person or the page can do about it, one or two sentences. */
  readonly fix: string;
  /** A {@link DprWebErrorCode}, or the code that the server gave. */
  readonly code: DprWebErrorCode | (string & {});
  /** Seconds after which the server wants to be asked again, where it said so (`retry-after`). */
  readonly retryAfter: number | undefined;

  protected constructor(message: string, fix: string, code: string, options?: DprErrorOptions) {
    super(message, options);
    this.fix = fix;
    this.code = code;
    this.retryAfter = options?.retryAfter;
  }
}

/**
 * The codes of errors that are this package's own.
 *
 * | code | class | what happened |
 * |---|---|---|
 * | `invalid_option` | `OptionError` | an address or option cannot be what it is |
 * | `disposed` | `DisposedError` | the object was disposed |
 * | `insecure_context` | `InsecureContextError` | neither `https://` nor `localhost` |
 * | `invalid_manifest` | `ManifestError` | the manifest is not one of this release |
 * | `no_weights` | `ManifestError` | the server has no weights for browsers, or none of the format asked for |
 * | `no_reader` | `ManifestError` | the server offers no model that answers, or re-ranks, in the page |
 * | `unexpected_model` | `ModelMismatchError` | not the model of `expect`, or not the static index of `expectIndex` |
 * | `download_failed` | `DownloadError` | the connection broke, or the server answered with an error (`status`) |
 * | `timeout` | `DownloadError`, `ServerError` | no answer in time |
 * | `stalled` | `DownloadError` | no byte came for too long |
 * | `out_of_memory` | `DownloadError` | no memory for the file |
 * | `corrupted_file` | `IntegrityError` | the file is not the one that the manifest names |
 * | `script_not_loaded` | `EncoderError` | the second part of this package's own script could not be loaded |
 * | `no_worker` | `EncoderError` | this runtime has no web workers |
 * | `worker_not_loaded` | `EncoderError` | the worker's script could not be loaded or started |
 * | `worker_silent` | `EncoderError` | the worker did not answer in time |
 * | `worker_version` | `EncoderError` | page and worker are of different releases |
 * | `wasm_not_loaded` | `EncoderError` | the WebAssembly file could not be fetched or started |
 * | `wasm_blocked_by_csp` | `EncoderError` | the policy of the page lacks `wasm-unsafe-eval` |
 * | `encoder_failed` | `EncoderError` | the encoder could not be started, or not encode the question |
 * | `reader_failed` | `EncoderError` | the reader could not be started, or not read the passages |
 * | `not_offered` | `PrivacyError` | the server does not offer this private mode, or this level of it |
 * | `would_reveal` | `PrivacyError` | an option would tell the server what the mode hides |
 * | `unknown_parameters` | `PrivacyError` | parameters of a private mode that this release refuses |
 * | `too_large` | `PrivacyError` | a private mode that would download more than a page should |
 * | `unexpected_version` | `VersionError` | not the private tables of `expectVersion` |
 * | `spoiled_answer` | `SpoiledAnswerError` | an answer to a private search that is not what it should be |
 * | `unreachable` | `ServerError` | no answer from the search server |
 * | `unexpected_answer` | `ServerError` | an answer that is not one of this release |
 */
export type DprWebErrorCode =
  | 'invalid_option'
  | 'disposed'
  | 'insecure_context'
  | 'invalid_manifest'
  | 'no_weights'
  | 'no_reader'
  | 'unexpected_model'
  | 'download_failed'
  | 'timeout'
  | 'stalled'
  | 'out_of_memory'
  | 'corrupted_file'
  | 'script_not_loaded'
  | 'no_worker'
  | 'worker_not_loaded'
  | 'worker_silent'
  | 'worker_version'
  | 'wasm_not_loaded'
  | 'wasm_blocked_by_csp'
  | 'encoder_failed'
  | 'reader_failed'
  | 'not_offered'
  | 'would_reveal'
  | 'unknown_parameters'
  | 'too_large'
  | 'unexpected_version'
  | 'spoiled_answer'
  | 'unreachable'
  | 'unexpected_answer';
