import type { WorkerSession } from '../encoder/worker-session.js';
import { OptionError } from '../errors/option-error.js';
import { VersionError } from '../errors/version-error.js';
import type { PrivacyOptions } from '../types/privacy.js';
import type { TablesShape } from '../worker/private/calls.js';
import { fetchFiles } from './files.js';
import { address, describe, sendOnce } from './http.js';
import type { Asked, Found } from './mode.js';
import type { PrivateParts } from './parts.js';
import { call } from './worker.js';

const BYTES = 'application/octet-stream';

/** Most bytes of what has changed since the tables were made. */
const MOST_DELTA = 2 ** 21;

/** What an encrypted search shows of a question. */
export function encryptedSees({ dims }: TablesShape, k: number): string {
  return `${dims} encrypted coordinates and ${k} encrypted column numbers: when it was asked, nothing about the question`;
}

/** Asks the server for its private tables, and has the worker check what it says of them. */
export async function describeEncrypted(
  parts: PrivateParts,
  session: WorkerSession,
  signal: AbortSignal,
): Promise<TablesShape> {
  const manifest = await describe(parts, 'encrypted', 'encrypted', signal);
  return call(session, 'tables', { manifest });
}

function requireVersion(version: string, expected: string | undefined): void {
  if (expected !== undefined && expected.toLowerCase() !== version) throw new VersionError(expected, version);
}

/** Downloads what everybody downloads. */
export async function openEncrypted(parts: PrivateParts, session: WorkerSession, shape: TablesShape): Promise<void> {
  const named = ({ name, bytes, sha256 }: TablesShape['files'][number]) => {
    return { url: address(parts, `encrypted/files/${sha256}/${name}`), bytes, sha256 };
  };
  const files = await fetchFiles(parts, 'encrypted', shape.files.map(named));
  await call(session, 'files', { files }, files.map(({ buffer }) => buffer));
}

/**
 * Refuses other tables than those that are expected, and a number of passages that cannot be fetched.
 *
 * @throws {@link VersionError}, {@link OptionError}
 */
export function requireTables({ version, traffic }: TablesShape, expected: string | undefined, k: number): void {
  requireVersion(version, expected);
  if (!traffic[k - 1]) throw new OptionError(`\`k\` is ${k}`, `Give a whole number from 1 to ${traffic.length}: an encrypted search finds so many.`);
}

/**
 * Searches once: two requests whose length depends on the tables and `k` alone. Wrong scores in the answer to the
 * first are told after the second. A refusal, an answer that is too long, and changes that are refused end the search
 * before the second, whatever the question is. Between them the page asks for what has changed since the tables were
 * made, where it does not know it yet.
 *
 * @param shape - that of tables of the version that is expected
 */
export async function searchEncrypted(
  asked: Asked,
  shape: TablesShape,
  { expectVersion }: Extract<PrivacyOptions, { mode: 'encrypted' }>,
): Promise<Found> {
  const { parts, session, vector, k, signal, search, announce } = asked;
  const [, rankBytes, , fetchBytes] = shape.traffic[k - 1] as [number, number, number, number];
  const send = (name: string, most: number, body: Uint8Array<ArrayBuffer> | '' = '') =>
    sendOnce(parts, `encrypted/${name}`, BYTES, body, most, signal, announce);
  const ranking = await call(session, 'ask', { search, vector, k });
  signal.throwIfAborted();
  const ranked = await send('rank', rankBytes, ranking.message);
  const { changes, isBehind } = await call(session, 'ranked', { search, answer: ranked }, [ranked.buffer]);
  if (changes) requireVersion(`${shape.version}+${changes}`, expectVersion);
  if (isBehind) {
    const delta = await send(`delta/${shape.version}`, MOST_DELTA);
    await call(session, 'update', { delta }, [delta.buffer]);
  }
  const fetching = await call(session, 'choose', { search });
  signal.throwIfAborted();
  const fetched = await send('fetch', fetchBytes, fetching.message);
  const { hits } = await call(session, 'open', { search, answer: fetched }, [fetched.buffer]);
  return { hits, tookMs: 0, sees: encryptedSees(shape, k) };
}
