import type { WorkerSession } from '../encoder/worker-session.js';
import { ManifestError } from '../errors/manifest-error.js';
import { PrivacyError } from '../errors/privacy-error.js';
import { ServerError } from '../errors/server-error.js';
import type { ModelFile } from '../types/manifest.js';
import type { BlurLevel, PrivacyOptions } from '../types/privacy.js';
import type { Hit } from '../types/search-result.js';
import { parseAnswer } from '../wire/parse-answer.js';
import { file, record } from '../wire/parse-manifest.js';
import { bytesToBase64 } from './bytes-to-base64.js';
import { deviceKey } from './device-key.js';
import { fetchFiles } from './files.js';
import { address, describe, notOffered, sendOnce } from './http.js';
import type { Asked, Found } from './mode.js';
import type { PrivateParts } from './parts.js';
import { call, tokensOf } from './worker.js';

/** The numbers of the levels, which a server cannot change: coordinates that are sent, and the length of the noise. */
const LEVELS: Record<BlurLevel, [dims: number, noise: number]> = { light: [96, 0.3], medium: [64, 0.3], strong: [48, 0.5] };
/** Most bytes of an answer; a server refuses to send more. */
const MOST_ANSWER = 2 ** 26;
const MOST_DIM = 8192;
/** Bytes before the numbers of a projection. */
const HEAD = 16;

/** What a server says of its blurred search. */
export interface Blurred {
  model: string;
  projection: ModelFile;
  levels: BlurLevel[];
}

/** What a level shows of a question. */
export function blurredSees(level: BlurLevel): string {
  const [dims, noise] = LEVELS[level];
  return `${dims} coordinates of the question with noise of length ${noise}: its topic, less of its wording`;
}

/**
 * Asks the server for the modes that it offers.
 *
 * @throws {@link PrivacyError} `not_offered` where the server offers no private mode
 */
export async function describeModes(parts: PrivateParts, signal: AbortSignal): Promise<Record<string, unknown>> {
  const bytes = await describe(parts, 'blurred', 'private', signal);
  const value = json(bytes, () => new ManifestError(`${address(parts, 'private')} did not answer with JSON`));
  return record(value, 'the description');
}

/** Checks what a server says of its blurred search. */
export function blurredOf({ blurred }: Record<string, unknown>, parts: PrivateParts): Blurred {
  if (blurred === undefined) throw notOffered('the server does not offer blurred search');
  const { model, dim, rank, projection, levels } = record(blurred, '`blurred`');
  if (typeof model !== 'string' || !isCount(dim, MOST_DIM) || !isCount(rank, dim)) {
    throw new ManifestError('the description of blurred search needs `model`, `dim` and `rank`');
  }
  const offered = record(levels, '`levels` of blurred search');
  const known = (Object.keys(LEVELS) as BlurLevel[]).filter((level) => offered[level] !== undefined);
  for (const level of known) {
    const { dims, noise } = record(offered[level], `the level ${level}`);
    if (dims !== LEVELS[level][0] || !(Math.abs(Number(noise) - LEVELS[level][1]) <= 1e-6)) {
      throw new PrivacyError(
        'unknown_parameters',
        `the server's level ${level} has ${String(dims)} coordinates and noise ${String(noise)}, this release ${LEVELS[level].join(' and ')}`,
        'Nothing was sent. Use the release of dpr-web that belongs to the server.',
      );
    }
  }
  const size = HEAD + dim * 4 + rank * dim * 2;
  const checked = file(projection, 'blurred.projection', size, address(parts, 'private'));
  if (checked.bytes !== size) throw new ManifestError(`the projection has ${checked.bytes} bytes, expected ${size}`);
  return { model, projection: checked, levels: known };
}

/** Downloads the projection and has the worker check it. */
export async function openBlurred(parts: PrivateParts, session: WorkerSession, of: Blurred): Promise<number> {
  const [bytes] = await fetchFiles(parts, 'blurred', [of.projection]);
  return (await call(session, 'projection', { bytes: bytes! }, [bytes!.buffer])).codeLength;
}

/** Searches once. */
export async function searchBlurred(
  asked: Asked,
  { projection, levels, model }: Blurred,
  codeLength: number,
  { level = 'medium', noiseMemory = 'device' }: Extract<PrivacyOptions, { mode: 'blurred' }>,
): Promise<Found> {
  const { parts, session, encoder, text, k, signal, search } = asked;
  if (!levels.includes(level)) {
    throw notOffered(`the server does not offer the level ${level}, only: ${levels.join(', ') || 'none'}`);
  }
  const tokens = await tokensOf(encoder, text, signal);
  const key = deviceKey(noiseMemory);
  const { sent } = await call(session, 'blur', { search, level, vector: asked.vector, key, model, tokens });
  const body = JSON.stringify({ y: bytesToBase64(sent), level, projection: projection.sha256, model });
  const answer = await sendOnce(parts, 'private/candidates', 'application/json', body, MOST_ANSWER, signal, asked.announce);
  const { hits, codes, tookMs } = readCandidates(answer, codeLength);
  const { ranked } = await call(session, 'candidates', { search, codes, k }, [codes.buffer]);
  const best = Array.from({ length: ranked.length / 2 }, (_, at): Hit => ({ ...hits[ranked[2 * at]!]!, score: ranked[2 * at + 1]! }));
  return { hits: best, tookMs, sees: blurredSees(level) };
}

/** The JSON of an answer; what is none is this error. */
function json(bytes: Uint8Array, error: () => Error): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw error();
  }
}

/** Checks an answer: its passages as those of a plain search, and codes of one length. */
function readCandidates(bytes: Uint8Array, codeLength: number) {
  const wrong = (what: string) =>
    new ServerError('unexpected_answer', 200, `the answer of the search server is not one of this release: ${what}`, 'Nothing was sent again. Tell who runs the server.');
  const value = json(bytes, () => wrong('it is not JSON'));
  const { candidates, took_ms } = Object(value) as { candidates?: unknown; took_ms?: unknown };
  if (!Array.isArray(candidates)) throw wrong('`candidates` is not a list');
  const scored = candidates.map((candidate: unknown) => ({ ...Object(candidate), score: 0 }));
  const { lists, tookMs } = parseAnswer({ hits: scored, took_ms }, 200);
  const codes = new Uint8Array(candidates.length * codeLength);
  const hits = lists[0]!.map((hit, at) => {
    const { id, score, title, text, metadata, code } = hit as Hit & { code?: unknown };
    let binary = '';
    try {
      binary = atob(String(code));
    } catch {
      // Of no length, then.
    }
    if (binary.length !== codeLength) throw wrong(`\`candidates[${at}].code\` has not ${codeLength} bytes`);
    for (let byte = 0; byte < codeLength; byte++) codes[at * codeLength + byte] = binary.charCodeAt(byte);
    return { id, score, title, text, ...(metadata && { metadata }) };
  });
  return { hits, codes, tookMs };
}

function isCount(value: unknown, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= most;
}
