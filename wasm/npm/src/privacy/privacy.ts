import type { QuestionEncoder } from '../encoder/question-encoder.js';
import type { WorkerSession } from '../encoder/worker-session.js';
import type { DprWebError } from '../errors/dpr-web-error.js';
import { OptionError } from '../errors/option-error.js';
import { PrivacyError } from '../errors/privacy-error.js';
import { ServerError } from '../errors/server-error.js';
import type { SearchOptions } from '../types/options.js';
import type { ParentClient } from '../types/parent-client.js';
import type { Privacy, PrivacyMode, PrivacyOptions } from '../types/privacy.js';
import type { SearchResult, SentRequest } from '../types/search-result.js';
import { silent } from '../wire/post-search.js';
import { untilAborted } from '../wire/until-aborted.js';
import { within } from '../wire/within.js';
import type { TablesShape } from '../worker/private/calls.js';
import { bucketMode, searchBuckets } from './bucket.js';
import { blurredOf, blurredSees, describeModes, openBlurred, searchBlurred, type Blurred } from './blurred.js';
import { describeEncrypted, encryptedSees, openEncrypted, requireTables, searchEncrypted } from './encrypted.js';
import { notOffered } from './http.js';
import { localMode, searchLocal } from './local.js';
import { modeOf } from './mode-of.js';
import type { Found } from './mode.js';
import type { Announce, PrivateParts } from './parts.js';
import { call, sessionOf } from './worker.js';

const DEFAULT_K = 10;
/** Milliseconds. */
const DEFAULT_TIMEOUT = 30_000;
/** What says that the description of a mode is out of date; nothing is sent again. */
const OUTDATED = ['wrong_model', 'wrong_projection', 'wrong_version', 'outdated_tables', 'no_private_search', 'no_encrypted_search'];

export { LocalEncoder as QuestionEncoder } from './local.js';

/** The modes of a static index. */
type StaticMode = 'local' | 'bucket';

/** The modes of a server that hide something. */
type Mode = Exclude<Privacy, 'plain' | StaticMode>;

const MODES: Privacy[] = ['plain', 'blurred', 'local', 'bucket', 'encrypted'];

type ServerOptions = Extract<PrivacyOptions, { mode: Mode }>;
type StaticOptions = Extract<PrivacyOptions, { mode: StaticMode }>;

/** A mode that is ready for questions, in one worker, for one model. */
interface Open {
  session: WorkerSession;
  model: string;
  /** Whether a server has refused a question because of what it was opened with: the next question opens it anew. */
  isOutdated?: boolean;
  blurred?: { of: Blurred; codeLength: number };
  encrypted?: TablesShape;
}

/** The modes of each client, and the ones that are being opened. */
const opened = new WeakMap<ParentClient, Map<Mode, Promise<Open>>>();

let lastSearch = 0;

/**
 * Searches in a private mode, one question after the other. No failure leads to a plainer mode, or sends again.
 *
 * @param rerankError - why what re-ranks is not there, where it was asked for
 */
export async function search(
  parts: PrivateParts,
  texts: readonly string[],
  options: SearchOptions,
  rerankError?: DprWebError,
): Promise<SearchResult[]> {
  const asked = privacyOf(parts, options);
  const { k = DEFAULT_K, filter } = options;
  if (!Number.isInteger(k) || k < 1) throw new OptionError(`\`k\` is ${k}`, 'Give a whole number from 1 on.');
  if (filter && Object.values(filter).some((value) => value !== undefined)) {
    const fix = 'Nothing was sent. Leave `filter` out, and filter `hits` in the page.';
    if (isStaticMode(asked.mode)) throw new OptionError(`${asked.mode} search takes no \`filter\``, fix);
    throw new PrivacyError('would_reveal', `a filter would tell the server what ${asked.mode} search hides`, fix);
  }
  const one = (text: string) => {
    if (asked.mode === 'bucket') return searchBuckets(parts, text, k, options, asked);
    if (asked.mode === 'local') return searchLocal(parts, text, k, options, asked);
    return searchOne(parts, text, k, options, asked);
  };
  const results: SearchResult[] = [];
  for (const text of texts) results.push({ ...(await one(text)), ...(rerankError && { reranked: false, rerankError }) });
  return results;
}

async function searchOne(
  parts: PrivateParts,
  text: string,
  k: number,
  options: SearchOptions,
  asked: ServerOptions,
): Promise<SearchResult> {
  const requests: SentRequest[] = [];
  const { mode } = asked;
  let last: unknown;
  return parts[5](options, async (encoder, signal, start) => {
    // The client tries again with another model: not once something of the question has been sent.
    if (requests.length > 0) throw last;
    // First: a worker that has ended is replaced by this.
    const vector = await encoder.encode(text, { signal });
    const open = await ready(parts, mode, encoder, signal);
    const { session } = open;
    if (asked.mode === 'encrypted') requireTables(open.encrypted!, asked.expectVersion, k);
    const encoded = performance.now();
    const milliseconds = options.timeout ?? parts[2].timeout ?? DEFAULT_TIMEOUT;
    const id = ++lastSearch;
    const announce: Announce = (request, sent) => {
      requests.push(request);
      return parts[6](request, signal, sent);
    };
    try {
      const run = ({ signal }: AbortController): Promise<Found> => {
        const question = { parts, encoder, session, text, vector, k, signal, search: id, announce };
        if (asked.mode === 'encrypted') return searchEncrypted(question, open.encrypted!, asked);
        return searchBlurred(question, open.blurred!.of, open.blurred!.codeLength, asked);
      };
      const limit = { milliseconds, error: () => silent(milliseconds) };
      const { hits, tookMs, sees } = await within([signal], run, limit);
      const timings = { encodeMs: encoded - start, searchMs: performance.now() - encoded, tookMs };
      return { hits, timings, request: requests[0]!, requests, privacy: { mode, sees } };
    } catch (error) {
      last = error;
      if (error instanceof ServerError && OUTDATED.includes(error.code)) open.isOutdated = true;
      throw error;
    } finally {
      // Whatever step it is at, its masks are spent.
      void call(session, 'drop', { search: id }).catch(() => undefined);
      if (mode === 'encrypted') void call(session, 'prepare', { k }).catch(() => undefined);
    }
  });
}

/**
 * Downloads and prepares what searches in the mode of these options need, so that the first one does not wait for it.
 */
export async function prepare(parts: PrivateParts, options: SearchOptions): Promise<void> {
  if (modeOf(options.privacy ?? parts[2].privacy) === 'plain' && !isStaticMode(modeOf(parts[2].privacy))) return;
  const asked = privacyOf(parts, options);
  await parts[5](options, async (encoder, signal) => {
    const { mode } = asked;
    // Loaded with the encoder.
    if (isStaticMode(mode)) return;
    const { session, encrypted } = await ready(parts, mode, encoder, signal);
    if (asked.mode !== 'encrypted') return;
    const { k = DEFAULT_K } = options;
    requireTables(encrypted!, asked.expectVersion, k);
    await call(session, 'prepare', { k });
  });
}

/** The modes that a client can search in. */
export function modes(parts: PrivateParts): Promise<PrivacyMode[]> {
  return parts[5]({}, async (encoder, signal) => {
    const own = modeOf(parts[2].privacy);
    if (own === 'local') return [localMode(encoder)];
    if (own === 'bucket') return [bucketMode(encoder, privacyOf(parts, {}) as Extract<PrivacyOptions, { mode: 'bucket' }>)];
    const found: PrivacyMode[] = [];
    const ifOffered = async (work: () => Promise<void>) => {
      try {
        await work();
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof PrivacyError && error.code === 'not_offered')) throw error;
      }
    };
    let described: Record<string, unknown> = {};
    await ifOffered(async () => {
      described = await describeModes(parts, signal);
    });
    const { modes } = described;
    // A server without private modes, and one of an earlier release, does not list them.
    if (!Array.isArray(modes) || modes.includes('plain')) {
      found.push({ mode: 'plain', onceBytes: 0, upBytes: undefined, downBytes: undefined, sees: 'the vector' });
    }
    await ifOffered(async () => {
      const { projection, levels } = blurredOf(described, parts);
      const level = levels.includes('medium') ? 'medium' : levels[0];
      found.push({
        mode: 'blurred',
        levels,
        onceBytes: projection.bytes,
        upBytes: undefined,
        downBytes: undefined,
        sees: level ? blurredSees(level) : '',
      });
    });
    await ifOffered(async () => {
      const shape = await describeEncrypted(parts, await sessionOf(parts, encoder), signal);
      const [rankUp, rankDown, fetchUp, fetchDown] = shape.traffic[DEFAULT_K - 1] as [number, number, number, number];
      found.push({
        mode: 'encrypted',
        onceBytes: shape.files.reduce((sum, { bytes }) => sum + bytes, 0),
        upBytes: rankUp + fetchUp,
        downBytes: rankDown + fetchDown,
        sees: encryptedSees(shape, DEFAULT_K),
      });
    });
    return found;
  });
}

/** A mode, opened once for however many searches, in the worker that computes now. */
async function ready(
  parts: PrivateParts,
  mode: Mode,
  encoder: QuestionEncoder,
  signal: AbortSignal,
): Promise<Open> {
  const [client, , , , life] = parts;
  const session = await untilAborted(sessionOf(parts, encoder), signal);
  const own = opened.get(client) ?? new Map<Mode, Promise<Open>>();
  opened.set(client, own);
  const was = own.get(mode);
  const before = was && (await untilAborted(was.catch(() => undefined), signal));
  if (before?.session === session && before.model === encoder.model.fingerprint && !before.isOutdated) return before;
  // Concurrent searches share one opening: the first to get here starts it, also after one that failed.
  let opening = own.get(mode);
  if (opening === was) {
    opening = open(parts, mode, encoder, session, life);
    own.set(mode, opening);
  }
  return untilAborted(opening!, signal);
}

async function open(
  parts: PrivateParts,
  mode: Mode,
  encoder: QuestionEncoder,
  session: WorkerSession,
  signal: AbortSignal,
): Promise<Open> {
  const model = encoder.model.fingerprint;
  const require = (of: string) => {
    // In the same letters: noise is made from them.
    if (of === model) return;
    throw new ServerError(
      'wrong_model',
      409,
      `${mode} search is for model ${of}, the question is encoded by ${model}`,
      'Search again once the server has one model for both.',
    );
  };
  if (mode === 'blurred') {
    const of = blurredOf(await describeModes(parts, signal), parts);
    require(of.model);
    return { session, model, blurred: { of, codeLength: await openBlurred(parts, session, of) } };
  }
  const shape = await describeEncrypted(parts, session, signal);
  require(shape.model);
  await openEncrypted(parts, session, shape);
  return { session, model, encrypted: shape };
}

/**
 * Returns the mode of a search: its own option, else that of the client.
 *
 * @throws {@link OptionError} for an unknown mode, {@link PrivacyError} for a mode that this client cannot use
 */
function privacyOf([, , { privacy }]: PrivateParts, options: SearchOptions): ServerOptions | StaticOptions {
  const given = options.privacy ?? privacy;
  const mode = modeOf(given);
  if (!(MODES as unknown[]).includes(mode)) {
    throw new OptionError(`\`privacy\` is ${JSON.stringify(given)}`, `Give one of ${MODES.join(', ')}; nothing was sent.`);
  }
  const own = modeOf(privacy);
  if (isStaticMode(mode) ? mode !== own : isStaticMode(own)) {
    throw isStaticMode(mode)
      ? new PrivacyError(
          'not_offered',
          `this client ${isStaticMode(own) ? `was made for ${own} search, and not for ${mode}` : `searches a server, and ${mode} search needs none`}`,
          `Nothing was sent. Make a client of a \`dpr-static.json\` with \`privacy: '${mode}'\`.`,
        )
      : notOffered(`a client of a static index has no server, and ${mode} search needs one`);
  }
  return Object(typeof given === 'string' ? { mode } : given) as ServerOptions | StaticOptions;
}

function isStaticMode(mode: Privacy): mode is StaticMode {
  return mode === 'local' || mode === 'bucket';
}
