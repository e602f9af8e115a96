import { openCache } from '../weights/open-cache.js';
import { keyOf, type Source } from '../weights/manifest-note.js';

/** A note of the model cache, with the text of a static index's manifest in the place of a model's. */
interface IndexNote extends Source {
  text?: string;
}

/** The address that the note is kept under: that of the index's question encoder is kept under the index's own. */
const noted = (url: string): Promise<string> => keyOf(`${url}#index`);

/** Notes which files a static index names, in the place of those that it named before. Never throws. */
export async function noteIndex(url: string, files: string[], text: string): Promise<void> {
  try {
    const note: IndexNote = { files, usedAt: Date.now(), text };
    await (await openCache())?.put(await noted(url), new Response(JSON.stringify(note)));
  } catch {
    // A full cache.
  }
}

/** The manifest that this address had the last time. Not checked; `undefined` if there is none. Never throws. */
export async function recallIndex(url: string): Promise<string | undefined> {
  try {
    const note = await (await openCache())?.match(await noted(url));
    return ((await note?.json()) as IndexNote | undefined)?.text;
  } catch {
    return undefined;
  }
}
