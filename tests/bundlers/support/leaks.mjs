// Looks for a question in what left the browser.
import { RECORDED } from './recorder.mjs';

/** Fewer bytes in base64 stand in a vector or the name of a file by chance. */
const LEAST_BYTES = 6;

/** Words that nothing of the protocol says. */
const words = (question) => question.match(/\p{L}{5,}/gu);

/** What of the question stands in this text, in plain words or in base64. */
export function leaks(text, question) {
  const low = text.toLowerCase();
  const plain = words(question).filter((word) => low.includes(word.toLowerCase()));
  return [...plain, ...[question, ...words(question)].flatMap(base64Traces).filter((trace) => text.includes(trace))];
}

/** What is wrong with a text that was sent. */
export function told(text, question) {
  const found = leaks(text, question);
  return found.length === 0 ? [] : [`the question left the page: ${found} in ${text.slice(0, 300)}`];
}

/**
 * What of the question a recorded request holds. The page itself cannot be asked for without its address: only its
 * headers count then.
 */
export function leaksOf({ what, head, headers, body }, { address, question }) {
  const isPage = what === `GET ${address}` && (headers['sec-fetch-mode'] ?? 'navigate') === 'navigate';
  return told(`${isPage ? 'the page' : what}\n${head}\n${body}`, question);
}

/** Requests at a server that did not come through the recorder, so that nobody has looked at them. */
export function unrecorded(requests) {
  return requests
    .filter(({ head }) => !head.split('\n').includes(RECORDED))
    .map(({ what }) => `a request went around the recorder: ${what}`);
}

/** What base64 of anything that holds the words must hold, at each of the three alignments. */
function base64Traces(text) {
  return [text, text.toLowerCase()].flatMap((variant) =>
    [0, 1, 2].flatMap((skip) => {
      // Whole groups of three bytes only: the others depend on what stands before and after.
      const bytes = Buffer.from(variant).subarray(skip);
      const whole = bytes.subarray(0, 3 * Math.floor(bytes.length / 3));
      return whole.length >= LEAST_BYTES ? [whole.toString('base64')] : [];
    }),
  );
}
