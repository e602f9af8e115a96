import type { WorkerSession } from '../encoder/worker-session.js';
import { OptionError } from '../errors/option-error.js';
import { VersionError } from '../errors/version-error.js';
import type { PrivacyOptions } from '../types/privacy.js';
import type { TablesShape } from '../worker/private/calls.js';
import { fetchFiles } from './files.js';
import { describe, post } from './http.js';
import type { Asked, Found } from './mode.js';
import type { PrivateParts } from './parts.js';
import { call } from './worker.js';

const BYTES = 'application/octet-stream';

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
  const manifest = await describe(parts, 'encrypted', new URL('encrypted', parts[1]).href, signal);
  return call(session, 'tables', { manifest });
}

/** Refuses other tables than those that are expected. */
export function requireVersion({ version }: TablesShape, expected: string | undefined): void {
  if (expected !== undefined && expected.toLowerCase() !== version) throw new VersionError(expected, version);
}

/** Downloads what everybody downloads. */
export async function openEncrypted(parts: PrivateParts, session: WorkerSession, shape: TablesShape): Promise<void> {
  const named = ({ name, bytes, sha256 }: TablesShape['files'][number]) => {
    return { url: new URL(`encrypted/files/${sha256}/${name}`, parts[1]).href, bytes, sha256 };
  };
  const files = await fetchFiles(parts, 'encrypted', shape.files.map(named));
  await call(session, 'files', { files }, files.map(({ buffer }) => buffer));
}

/** @throws {@link OptionError} for a number of passages that cannot be fetched */
export function requireCount({ traffic }: TablesShape, k: number): void {
  if (Number.isInteger(k) && k >= 1 && k <= traffic.length) return;
  throw new OptionError(`\`k\` is ${k}`, `Give a whole number from 1 to ${traffic.length}: an encrypted search finds so many.`);
}

/**
 * Searches once: two requests, always, whose length depends on the tables and `k` alone. What is wrong with the answer
 * to the first is told after the second.
 */
export async function searchEncrypted(
  asked: Asked,
  shape: TablesShape,
  { expectVersion }: Extract<PrivacyOptions, { mode: 'encrypted' }>,
): Promise<Found> {
  const { parts, session, vector, k, signal, search, announce } = asked;
  requireVersion(shape, expectVersion);
  const [, rankBytes, , fetchBytes] = shape.traffic[k - 1] as [number, number, number, number];
  const url = (name: string) => new URL(`encrypted/${name}`, parts[1]).href;
  const ranking = await call(session, 'ask', { search, vector, k });
  signal.throwIfAborted();
  const ranked = await post(parts, url('rank'), BYTES, ranking.message, rankBytes, signal, announce);
  const fetching = await call(session, 'choose', { search, answer: ranked }, [ranked.buffer]);
  signal.throwIfAborted();
  const fetched = await post(parts, url('fetch'), BYTES, fetching.message, fetchBytes, signal, announce);
  const { hits } = await call(session, 'open', { search, answer: fetched }, [fetched.buffer]);
  return { hits, tookMs: 0, sees: encryptedSees(shape, k) };
}
