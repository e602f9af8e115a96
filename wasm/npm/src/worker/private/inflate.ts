import { ModuleError } from '../module-error.js';

/** What to do about it is for the page to say, by the code. */
export const UNSAID = '-';

/** The most bytes of the passages of a column or a delta, decompressed. */
const MOST_TEXT = 2 ** 24;

/** Decompresses raw deflate of text, up to a limit. */
export async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw')).getReader();
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let text = '';
  let length = 0;
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      length += next.value.length;
      if (length > MOST_TEXT) throw new ModuleError(`compressed passages have more than ${MOST_TEXT} bytes`, UNSAID, 'spoiled_answer');
      text += decoder.decode(next.value, { stream: true });
    }
    return text + decoder.decode();
  } catch (error) {
    if (error instanceof ModuleError) throw error;
    throw new ModuleError('passages cannot be decompressed', UNSAID, 'spoiled_answer');
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
