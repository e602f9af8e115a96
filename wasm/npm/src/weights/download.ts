import { DownloadError } from '../errors/download-error.js';
import { IntegrityError } from '../errors/integrity-error.js';
import type { ModelFile } from '../types/manifest.js';
import type { ProgressListener } from '../types/progress.js';
import { Silence } from '../wire/silence.js';
import { PLAIN, type Transport } from '../wire/transport.js';

/** A connection that broke is taken up again once, where it broke. */
const TRIES = 2;
/** A connection over which nothing comes for this long is as good as broken, in milliseconds. */
const LONGEST_STALL = 30_000;
/** Progress events at most this often, in milliseconds: a fast network delivers thousands of chunks a second. */
const PROGRESS_INTERVAL = 50;

/**
 * Downloads a file of a known length into one buffer.
 *
 * @throws {@link DownloadError} when the second try fails too, or there is no memory for the file
 * @throws {@link IntegrityError} when more bytes arrive than the manifest says
 */
export async function download(
  name: string,
  file: ModelFile,
  onProgress: ProgressListener,
  signal: AbortSignal | undefined,
  requests: Transport = PLAIN,
): Promise<Uint8Array<ArrayBuffer>> {
  const buffer = allocate(file);
  let loaded = 0;
  let lastEvent = 0;
  let failure: DownloadError | undefined;
  const silence = new Silence();

  for (let attempt = 0; attempt < TRIES; attempt++) {
    signal?.throwIfAborted();
    const stalled = new AbortController();
    const listen = () => silence.wait(LONGEST_STALL, () => stalled.abort());
    listen();
    try {
      const response = await request(requests, file.url, loaded, signal ? AbortSignal.any([signal, stalled.signal]) : stalled.signal);
      // A server that ignores Range answers 200 with the whole file.
      if (response.status !== 206) loaded = 0;
      onProgress({ status: 'download', file: name, total: file.bytes, resumedAt: loaded });
      for await (const chunk of chunks(response)) {
        listen();
        if (loaded + chunk.length > file.bytes) {
          throw new IntegrityError(name, file.sha256, `more than the expected ${file.bytes} bytes`);
        }
        buffer.set(chunk, loaded);
        loaded += chunk.length;
        const now = performance.now();
        if (now - lastEvent >= PROGRESS_INTERVAL || loaded === file.bytes) {
          lastEvent = now;
          onProgress({ status: 'progress', file: name, loaded, total: file.bytes });
        }
      }
      if (loaded === file.bytes) return buffer;
      failure = new DownloadError(file.url, response.status, `it ended after ${loaded} of ${file.bytes} bytes`);
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof IntegrityError) throw error;
      if (error instanceof DownloadError && !worthRetrying(error.status)) throw error;
      const what = stalled.signal.aborted ? `nothing came for ${LONGEST_STALL / 1000} s` : 'the connection broke';
      failure =
        error instanceof DownloadError
          ? error
          : new DownloadError(file.url, 0, `${what} after ${loaded} of ${file.bytes} bytes`, { cause: error });
    } finally {
      silence.stop();
    }
  }
  throw failure;
}

function allocate(file: ModelFile): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(file.bytes);
  } catch (error) {
    throw new DownloadError(file.url, 0, `this browser has no memory for its ${file.bytes} bytes`, { cause: error });
  }
}

async function request(requests: Transport, url: string, from: number, signal: AbortSignal): Promise<Response> {
  const response = await requests.send(url, {
    // Kept in the Cache API after its check; the HTTP cache would only store it a second time, unchecked.
    cache: 'no-store',
    headers: from > 0 ? { range: `bytes=${from}-` } : {},
    signal,
  });
  if (!response.ok) {
    throw new DownloadError(url, response.status, `the server answered ${response.status} ${response.statusText}`.trimEnd());
  }
  return response;
}

function worthRetrying(status: number): boolean {
  return status === 0 || status === 408 || status === 429 || status >= 500;
}

// `ReadableStream` has no async iterator in Safari.
async function* chunks(response: Response): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  if (!reader) return;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
