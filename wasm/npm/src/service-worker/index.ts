/**
 * For service workers: {@link keepOffline} keeps what encoding takes, so that a page works without a network.
 *
 * @packageDocumentation
 */
export type { FetchEventLike, KeepOfflineOptions, OfflineFiles } from './keep-offline.js';
export { keepOffline } from './keep-offline.js';
