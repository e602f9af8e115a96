import { safely } from '../encoder/safely.js';
import { DprWebError } from '../errors/dpr-web-error.js';
import { ManifestError } from '../errors/manifest-error.js';
import { OptionError } from '../errors/option-error.js';
import { modeOf } from '../privacy/mode-of.js';
import type { AnswerResult } from '../types/answer.js';
import type { ModelManifest } from '../types/manifest.js';
import type { AnswerOptions, ConnectOptions, SearchOptions } from '../types/options.js';
import type { PairKind } from '../types/pair-files.js';
import type { ParentClient } from '../types/parent-client.js';
import type { Privacy } from '../types/privacy.js';
import type { Hit, SearchResult } from '../types/search-result.js';
import type { Transport } from '../wire/transport.js';
import { within } from '../wire/within.js';
import { workerSource } from '../worker/worker-source.js';
import { bestAnswers } from './best-answers.js';
import { fetchPairFiles } from './pair-files.js';
import { pairDtype, pairModel } from './pair-model.js';
import { PairRunner, type PassageScore } from './pair-runner.js';

const DEFAULT_DEPTH = 20;
const DEFAULT_K = 10;
/** Most passages that an encrypted search finds (MOST_FETCHES in core), which is also its default depth. */
const ENCRYPTED_DEPTH = 10;
/** As in the paper. */
const DEFAULT_ANSWER_TOKENS = 10;

/** What of a client is needed here; what follows is for others. */
export type ClientParts = [...ClientBase, ...unknown[]];

/** What re-ranking and private modes both need of a client. */
export type ClientBase = [
  client: ParentClient,
  /** Address of the manifest. */
  source: URL,
  options: ConnectOptions,
  requests: Transport,
  /** Ends with the client. */
  life: AbortSignal,
];

/** The models of pairs of each client, for as long as it lives. */
const runners = new WeakMap<ParentClient, Map<PairKind, PairRunner>>();

/**
 * Searches, and puts the first passages of each result into the order of the server's reranker or reader. Where that
 * cannot be done, they stay in the server's order.
 */
export async function rerank(
  parts: ClientParts,
  texts: readonly string[],
  options: SearchOptions,
  isBatch: boolean,
): Promise<SearchResult[]> {
  const [client] = parts;
  const { rerank: asked, k: wanted, ...rest } = options;
  const k = counted(wanted, DEFAULT_K, '`k`');
  const mode = modeOf(options.privacy ?? parts[2].privacy);
  const depth = depthOf(asked?.depth, mode, '`rerank.depth`');
  const search = { ...rest, k: Math.max(k, depth) };
  return within([options.signal, parts[4]], async ({ signal }) => {
    let early: Promise<PairRunner> | undefined;
    if (mode !== 'plain') {
      await client.ready;
      early = prepared(parts, kindOf(client), depth, signal);
      // A failure is reported with the results.
      await early.catch(() => undefined);
    }
    const found = isBatch ? await client.searchMany(texts, search) : [await client.search(texts[0]!, search)];
    const results: SearchResult[] = [];
    for (const [position, result] of found.entries()) {
      const start = performance.now();
      const ranked = await reranked(parts, texts[position]!, result.hits, depth, signal, early);
      const timings = { ...result.timings, rerankMs: performance.now() - start };
      results.push({ ...result, ...ranked, timings, hits: ranked.hits.slice(0, k) });
    }
    return results;
  });
}

async function reranked(
  parts: ClientParts,
  text: string,
  hits: Hit[],
  depth: number,
  signal: AbortSignal,
  early: Promise<PairRunner> | undefined,
): Promise<Pick<SearchResult, 'hits' | 'reranked' | 'rerankError'>> {
  try {
    const first = hits.slice(0, depth);
    const scores: number[] = [];
    const runner = await (early ?? runnerOf(parts, kindOf(parts[0])));
    await runner.run(text, first, undefined, (at, { logit }) => (scores[at] = logit), signal);
    const scored = first.map((hit, at) => (Number.isNaN(scores[at]) ? hit : { ...hit, rerankScore: scores[at]! }));
    const of = ({ rerankScore = -Infinity }: Hit) => rerankScore;
    // Equal ones, and those without a text, stay in the server's order.
    scored.sort((a, b) => (of(a) === of(b) ? 0 : of(b) - of(a)));
    return { hits: [...scored, ...hits.slice(depth)], reranked: true };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof DprWebError)) throw error;
    return { hits, reranked: false, rerankError: error };
  }
}

/** Searches, and reads the passages found. */
export async function answer(
  parts: ClientParts,
  text: string,
  options: AnswerOptions,
): Promise<AnswerResult> {
  const [client] = parts;
  const { timeout, filter, onAnswer, privacy } = options;
  const mode = modeOf(privacy ?? parts[2].privacy);
  const depth = depthOf(options.depth, mode, '`depth`');
  const count = counted(options.count, 1, '`count`');
  const tokens = counted(options.maxAnswerTokens, DEFAULT_ANSWER_TOKENS, '`maxAnswerTokens`');
  return within([options.signal, parts[4]], async ({ signal }) => {
    // Without a reader nothing needs to be sent.
    await client.ready;
    signal.throwIfAborted();
    offered('reader', parts);
    const early = mode === 'plain' ? undefined : await prepared(parts, 'reader', options.hits?.length || depth, signal);
    const found = options.hits
      ? { hits: options.hits, timings: { encodeMs: 0, searchMs: 0, tookMs: 0 } }
      : await client.search(text, { k: depth, timeout, filter, signal, ...(privacy !== undefined && { privacy }) });
    const { hits, timings } = found;
    const start = performance.now();
    const runner = early ?? (await runnerOf(parts, 'reader'));
    const scores: PassageScore[] = [];
    let read = 0;
    const tell = safely(onAnswer);
    const onRead = (at: number, score: PassageScore) => {
      if (signal.aborted) return;
      scores[at] = score;
      read++;
      if (onAnswer) tell({ answers: bestAnswers(hits, scores, count), read, total: hits.length });
    };
    await runner.run(text, hits, tokens, onRead, signal);
    const answers = bestAnswers(hits, scores, count);
    return { ...found, answers, timings: { ...timings, readMs: performance.now() - start } };
  });
}

/** Returns how many passages are read; of an encrypted search at most {@link ENCRYPTED_DEPTH}. */
function depthOf(value: number | undefined, mode: Privacy, what: string): number {
  if (mode !== 'encrypted') return counted(value, DEFAULT_DEPTH, what);
  const depth = counted(value, ENCRYPTED_DEPTH, what);
  if (depth <= ENCRYPTED_DEPTH) return depth;
  throw new OptionError(`${what} is ${depth}`, `Give 1 to ${ENCRYPTED_DEPTH}: an encrypted search finds so many. Nothing was sent.`);
}

/** The kind of model that re-ranks: the reranker where the server offers one, else the reader. */
function kindOf({ model }: ParentClient): PairKind {
  return model?.reranker ? 'reranker' : 'reader';
}

/** The model of this kind that the server offers now. */
function offered(kind: PairKind, [client, source]: ClientParts) {
  const pair = client.model && pairModel(client.model, kind, source);
  if (pair) return pair;
  throw new ManifestError(
    'the server offers no model that reads passages in the page, beside this encoder',
    'Run `dpr export-web --model MODEL --reader READER` for the model of this encoder, and restart the server.',
    'no_reader',
  );
}

/**
 * A model of pairs in its workers, ready for so many passages. In private modes before the search: what is downloaded
 * after it tells the server that the search has succeeded, and so whether an answer that the server has spoiled on
 * purpose was noticed.
 */
async function prepared(
  parts: ClientParts,
  kind: PairKind,
  passages: number,
  signal: AbortSignal,
): Promise<PairRunner> {
  const runner = await runnerOf(parts, kind);
  await runner.prepare(passages, signal);
  return runner;
}

async function runnerOf(parts: ClientParts, kind: PairKind): Promise<PairRunner> {
  const [client, source, options, requests, life] = parts;
  const pair = offered(kind, parts);
  const own = runners.get(client) ?? new Map<PairKind, PairRunner>();
  runners.set(client, own);
  const encoder = client.model as ModelManifest;
  const dtype = pairDtype(pair, encoder, client.dtype!);
  // Passages are read by workers of this tab, one a core, beside a shared question encoder; those of a page's own are its
  // choice.
  const isShared = options.worker === 'shared' && options.createWorker !== undefined;
  const workers = await workerSource(isShared ? options : { ...options, worker: 'dedicated' });
  life.throwIfAborted();
  const old = own.get(kind);
  if (old && old.settings.pair.fingerprint === pair.fingerprint && old.settings.dtype === dtype) return old;
  old?.end(new Error('the server has another model'));
  const onProgress = safely(options.onProgress);
  const runner = new PairRunner({
    kind,
    pair,
    encoder,
    source: source.href,
    device: client.device!,
    dtype,
    isShared,
    workers,
    fetchFiles: () => fetchPairFiles(pair, dtype, encoder, onProgress, requests, life),
    onProgress,
    life,
  });
  own.set(kind, runner);
  return runner;
}

function counted(value: number | undefined, otherwise: number, what: string): number {
  if (value === undefined) return otherwise;
  if (Number.isInteger(value) && value >= 1) return value;
  throw new OptionError(`${what} is ${String(value)}`, 'Give a whole number from 1 on.');
}
