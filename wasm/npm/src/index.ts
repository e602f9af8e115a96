/**
 * Dense passage retrieval in the browser: {@link SearchClient} encodes a question in the page and sends
 * only its vector; {@link QuestionEncoder} is the encoder alone.
 *
 * @packageDocumentation
 */
export { SearchClient } from './client/search-client.js';
export { QuestionEncoder } from './encoder/question-encoder.js';
export { DisposedError } from './errors/disposed-error.js';
export { DownloadError } from './errors/download-error.js';
export { DprWebError } from './errors/dpr-web-error.js';
export { EncoderError } from './errors/encoder-error.js';
export { InsecureContextError } from './errors/insecure-context-error.js';
export { IntegrityError } from './errors/integrity-error.js';
export { ManifestError } from './errors/manifest-error.js';
export { ModelMismatchError } from './errors/model-mismatch-error.js';
export { ServerError } from './errors/server-error.js';
export type { Device, DeviceChoice, Dtype, DtypeChoice } from './types/device.js';
export type { ExpectedModel } from './types/expected-model.js';
export type { ModelFile, ModelManifest } from './types/manifest.js';
export type { Bounds, Comparison, Condition, Metadata, MetadataValue } from './types/metadata.js';
export type { ConnectOptions, EncodeOptions, LoadOptions, PassageFilter, SearchOptions } from './types/options.js';
export type { Progress, ProgressListener } from './types/progress.js';
export type { Hit, SearchResult, SearchTimings, SentRequest } from './types/search-result.js';
export { base64ToVector, vectorToBase64 } from './wire/base64.js';
export { clearModelCache } from './weights/file-cache.js';
