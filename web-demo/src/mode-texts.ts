import type { Privacy } from 'dpr-web';
import { byId } from './dom.js';

interface Texts {
  /** Goes on with the number of passages. */
  lede: string;
  caveat: [title: string, text: string];
  /** What a pause of the typing sends. */
  typing: string;
}

/** What the page says of each mode. */
const TEXTS: Record<Privacy, Texts> = {
  plain: {
    lede: 'Only those numbers are sent to find the passages',
    caveat: [
      'Not a secret code.',
      'With effort, much of a short question can be reconstructed from its vector. Sending only the vector means less data leaves, not that nothing can be learned from it.',
    ],
    typing: 'Each pause sends a vector of what is typed by then.',
  },
  blurred: {
    lede: 'Only a few coordinates of them, with noise, are sent to find the passages',
    caveat: [
      'Blurred, not hidden.',
      'The server sees what the question is about, and recognises one that it can guess; of the wording it sees less. There is no guarantee, only measured attacks.',
    ],
    typing: 'Each pause sends blurred coordinates of what is typed by then.',
  },
  local: {
    lede: 'They are not sent: this page has downloaded the index, and itself finds the passages',
    caveat: [
      'Nothing of the question leaves.',
      'Whoever hosts the files saw that they were downloaded, from where and when, and not what is searched for.',
    ],
    typing: 'Each pause searches in this page for what is typed by then; nothing is sent.',
  },
  bucket: {
    lede: 'They are not sent: this page fetches the buckets of passages that the question is about, and decoys, and itself finds the passages',
    caveat: [
      'The host sees which buckets.',
      'The question is about something in one of them, among thousands of passages and not among people. Decoys stay the same for this browser; what two questions on neighbouring topics have in common can tell them apart.',
    ],
    typing: 'Each pause fetches the buckets of what is typed by then, which shows more than one question does.',
  },
  encrypted: {
    lede: 'They are sent under encryption that the server cannot open, to find the passages',
    caveat: [
      'Experimental.',
      'Nobody outside has reviewed this encryption yet. The server sees that and when something was asked, and for how many passages; it is built to learn nothing else of the question.',
    ],
    typing: 'Each pause sends two encrypted requests for what is typed by then.',
  },
};

/** Makes the page say what is true of a mode. */
export function describeMode(mode: Privacy): void {
  const { lede, caveat, typing } = TEXTS[mode];
  byId('lede-sent').textContent = lede;
  byId('caveat-title').textContent = caveat[0];
  byId('caveat-text').textContent = caveat[1];
  byId('typing-note').textContent = typing;
  byId('time-search-name').textContent = mode === 'local' || mode === 'bucket' ? 'Search' : 'Request';
}
