import { openCache } from '../weights/open-cache.js';
import { keyOf, type Source } from '../weights/manifest-note.js';

/** A note of the model cache, with the text of a static index's manifest in the place of a model's. */
interface IndexNote extends Source {
  text?: string;
}

/** The address that the note is kept under: that of the index's question encoder is kept under the index's own. */
const noted = (url: string): Promise<string> => keyOf(`${url}#index`);

/**
 * Notes which files of a static index this page uses, in the place of those of another version of it. Those of the same
 * version stay noted: buckets, and the whole index, have some each. Never throws.
 */
export async function noteIndex(url: string, files: string[], text: string): Promise<void> {
  try {
    const before = await recallIndex(url);
    if (before?.text === text) files = [...new Set([...files, ...before.files])];
    const note: IndexNote = { files, usedAt: Date.now(), text };
    await (await openCache())?.put(await noted(url), new Response(JSON.stringify(note)));
  } catch {
    // A full cache.
  }
}

/** What was noted of this address the last time. Not checked; `undefined` if there is nothing. Never throws. */
export async function recallIndex(url: string): Promise<IndexNote | undefined> {
  try {
    return (await (await (await openCache())?.match(await noted(url)))?.json()) as IndexNote | undefined;
  } catch {
    return undefined;
  }
}
