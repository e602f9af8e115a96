import type { ModelFiles } from '../weights/model-files.js';
import type { StreamedFiles } from '../weights/stream-model.js';
import { fetchOrdered } from './fetch-ordered.js';
import type { FileOrder } from './file-order.js';
import type { Reply } from './protocol.js';

/** Signs of life while a download waits, which has a limit of its own, in milliseconds. */
const ALIVE_INTERVAL = 10_000;

/** The files that a page ordered of its worker, while they are downloaded. */
export class OrderedFiles {
  /** Their addresses. */
  readonly urls: string[];
  readonly #files: Promise<ModelFiles | StreamedFiles | undefined>;

  constructor(order: FileOrder, post: (message: Reply) => void) {
    const { encoder, weights } = order.manifest;
    this.urls = [...Object.values(encoder), ...Object.values(weights)].map(({ url }) => url);
    this.#files = fetchOrdered(order, (event) => post({ type: 'progress', event }));
    this.#files.catch(() => undefined);
  }

  /** Rejects when a download has failed; what settles otherwise is `other`. */
  unlessFailed<T>(other: Promise<T>): Promise<T> {
    const arrived = this.#files.then((files) => (files && 'arrived' in files.weights ? files.weights.arrived : undefined));
    return Promise.race([other, arrived.then(() => other)]);
  }

  /** The files; `undefined` where this worker may not download them. */
  async take(alive: () => void): Promise<ModelFiles | StreamedFiles | undefined> {
    const timer = setInterval(alive, ALIVE_INTERVAL);
    try {
      return await this.#files;
    } finally {
      clearInterval(timer);
    }
  }
}
