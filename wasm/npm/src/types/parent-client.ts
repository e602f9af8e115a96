import type { Device, Dtype } from './device.js';
import type { ModelManifest } from './manifest.js';
import type { SearchOptions } from './options.js';
import type { SearchResult } from './search-result.js';

/** What re-ranking, answers and private modes use of the client that they belong to. */
export interface ParentClient {
  /** Loads the encoder where it is not there yet. */
  readonly ready: Promise<unknown>;
  readonly model: ModelManifest | undefined;
  readonly device: Device | undefined;
  readonly dtype: Dtype | undefined;
  search(question: string, options?: SearchOptions): Promise<SearchResult>;
  searchMany(questions: readonly string[], options?: SearchOptions): Promise<SearchResult[]>;
}
