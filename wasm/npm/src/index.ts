/**
 * Dense passage retrieval in the browser: {@link SearchClient} encodes a question in the page and sends
 * only its vector; {@link QuestionEncoder} is the encoder alone.
 *
 * @packageDocumentation
 */
export type { ClientEvents, ClientState } from './client/client-events.js';
export type { RequestDetail, RequestOutcome, TypedEventTarget } from './client/client-events.js';
export { SearchClient } from './client/search-client.js';
export type { ReadyClient } from './client/search-client.js';
export type { Typeahead, TypeaheadOptions, TypeaheadState } from './client/typeahead.js';
export { typeahead } from './client/typeahead.js';
export { QuestionEncoder } from './encoder/question-encoder.js';
export { DisposedError } from './errors/disposed-error.js';
export { DownloadError } from './errors/download-error.js';
export type { DprWebErrorCode } from './errors/dpr-web-error.js';
export { DprWebError } from './errors/dpr-web-error.js';
export { EncoderError } from './errors/encoder-error.js';
export { InsecureContextError } from './errors/insecure-context-error.js';
export { IntegrityError } from './errors/integrity-error.js';
export { ManifestError } from './errors/manifest-error.js';
export { ModelMismatchError } from './errors/model-mismatch-error.js';
export { OptionError } from './errors/option-error.js';
export { PrivacyError } from './errors/privacy-error.js';
export { ServerError } from './errors/server-error.js';
export { SpoiledAnswerError } from './errors/spoiled-answer-error.js';
export { VersionError } from './errors/version-error.js';
export type { QuestionEncoderLike, SearchClientLike } from './types/client-like.js';
export type { Answer, AnswerProgress, AnswerResult } from './types/answer.js';
export type { Device, DeviceChoice, Dtype, DtypeChoice, WasmBuild } from './types/device.js';
export type { ExpectedIndex, ExpectedModel } from './types/expected-model.js';
export type { ModelFile, ModelManifest, PairModel, PairWeights } from './types/manifest.js';
export type { Bounds, Comparison, Condition, Metadata, MetadataValue } from './types/metadata.js';
export type { HeadersSource, NetworkOptions, RetryOptions } from './types/network.js';
export type { AnswerOptions, ConnectOptions, EncodeOptions, LoadOptions } from './types/options.js';
export type { PassageFilter, RerankOptions, SearchOptions } from './types/options.js';
export type { BlurLevel, Privacy, PrivacyMode, PrivacyOptions, SearchPrivacy } from './types/privacy.js';
export type { DeviceChange, Progress, ProgressListener } from './types/progress.js';
export type { Hit, SearchResult, SearchTimings, SentRequest } from './types/search-result.js';
export { base64ToVector, vectorToBase64 } from './wire/base64.js';
export { clearModelCache } from './weights/clear-model-cache.js';
export type { CachedModel } from './weights/model-cache.js';
export { modelCache } from './weights/model-cache.js';
