import { DownloadError } from '../errors/download-error.js';
import { DprWebError } from '../errors/dpr-web-error.js';
import { IntegrityError } from '../errors/integrity-error.js';
import type { ModelFile } from '../types/manifest.js';
import type { ProgressListener } from '../types/progress.js';
import { Silence } from '../wire/silence.js';
import { refused } from '../wire/refused.js';
import { PLAIN, type Transport } from '../wire/transport.js';
import { within } from '../wire/within.js';

/** Progress events at most this often, in milliseconds: a fast network delivers thousands of chunks a second. */
const PROGRESS_INTERVAL = 50;

/**
 * Downloads a file of a known length into one buffer, as {@link receive} does.
 *
 * @throws {@link DownloadError} when the last try fails too, or there is no memory for the file
 * @throws {@link IntegrityError} when more bytes arrive than the manifest says
 */
export async function download(
  name: string,
  file: ModelFile,
  onProgress: ProgressListener,
  signal: AbortSignal | undefined,
  requests: Transport = PLAIN,
  cache: RequestCache = 'no-store',
): Promise<Uint8Array<ArrayBuffer>> {
  const buffer = allocate(file);
  await receive(name, file, (bytes, at) => buffer.set(bytes, at), onProgress, signal, requests, cache);
  return buffer;
}

/**
 * Downloads a file of a known length. A connection that breaks or stalls is taken up again where it broke, as often as
 * `requests` tries.
 *
 * @param take - is handed the bytes as they come, with their place in the file. A server that sends no part of a file
 * has it come from the beginning again
 * @param cache - `no-store` where the file is kept after its check; the HTTP cache would only store it a second time,
 * unchecked
 * @throws {@link DownloadError} when the last try fails too
 * @throws {@link IntegrityError} when more bytes arrive than the manifest says
 */
export async function receive(
  name: string,
  file: ModelFile,
  take: (bytes: Uint8Array, at: number) => void | Promise<void>,
  onProgress: ProgressListener,
  signal: AbortSignal | undefined,
  requests: Transport,
  cache: RequestCache,
): Promise<void> {
  const silence = new Silence();
  let loaded = 0;
  let lastEvent = 0;
  const failed = (what: string, code?: string, cause?: unknown) =>
    new DownloadError(file.url, 0, `${what} after ${loaded} of ${file.bytes} bytes`, { cause }, code);

  const once = async (stop: AbortController) => {
    // All of it came before the connection broke.
    if (loaded === file.bytes) return;
    const { stallTimeout } = requests;
    const listen = () =>
      silence.wait(stallTimeout, () => stop.abort(failed(`nothing came for ${stallTimeout / 1000} s`, 'stalled')));
    let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
    listen();
    try {
      const headers: HeadersInit = loaded ? { range: `bytes=${loaded}-` } : {};
      const response = await requests.send(file.url, { cache, headers, signal: stop.signal });
      if (!response.ok) throw refused(file.url, response);
      // A server that ignores Range answers 200 with the whole file.
      if (response.status !== 206) loaded = 0;
      onProgress({ status: 'download', file: name, total: file.bytes, resumedAt: loaded });
      // `ReadableStream` has no async iterator in Safari.
      reader = response.body?.getReader();
      while (reader) {
        const { done, value: chunk } = await reader.read();
        if (done) break;
        listen();
        if (loaded + chunk.length > file.bytes) {
          throw new IntegrityError(name, file.sha256, `more than the expected ${file.bytes} bytes`);
        }
        const taken = take(chunk, loaded);
        if (taken) await taken;
        loaded += chunk.length;
        const now = performance.now();
        if (now - lastEvent >= PROGRESS_INTERVAL || loaded === file.bytes) {
          lastEvent = now;
          onProgress({ status: 'progress', file: name, loaded, total: file.bytes });
        }
      }
    } catch (error) {
      throw error instanceof DprWebError ? error : failed('the connection broke', undefined, error);
    } finally {
      silence.stop();
      await reader?.cancel().catch(() => undefined);
    }
    if (loaded !== file.bytes) throw failed('the connection ended');
  };
  return within([signal], (stop) => requests.retrying(stop.signal, () => within([stop.signal], once)));
}

function allocate(file: ModelFile): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(file.bytes);
  } catch (error) {
    const reason = `this browser has no memory for its ${file.bytes} bytes`;
    throw new DownloadError(file.url, 0, reason, { cause: error }, 'out_of_memory');
  }
}
