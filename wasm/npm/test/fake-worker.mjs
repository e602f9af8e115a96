import { fetchOrdered } from '../dist/worker/fetch-ordered.js';
import { PROTOCOL } from '../dist/worker/protocol.js';
import { sentError } from '../dist/worker/sent-error.js';
import { fakeFetch, fileOf, someBytes } from './helpers.mjs';

const DIM = 4;

/**
 * Stands in for the worker and its module: a "vector" is the length of the text, `dim` times. The
 * script says per device what goes wrong: a message for a failed command, `fatal`, or `never`; and what becomes of the
 * hello, which has no device yet.
 */
export class FakeWorker {
  terminated = false;
  device;
  /** Types of the commands it got. */
  commands = [];
  #script;
  #stop = new AbortController();
  #ordered;

  constructor(script) {
    this.#script = script;
  }

  postMessage(command) {
    this.commands.push(command.type);
    if (command.type === 'init') {
      this.device = command.device;
      this.wasm = command.wasm;
      this.relaxed = command.relaxed;
      this.order = command.order;
      // The package's own code, as in a worker.
      const post = (event) => this.terminated || this.onmessage({ data: { type: 'progress', event } });
      this.#ordered = command.order && fetchOrdered(command.order, post, this.#stop.signal);
      this.#ordered?.catch(() => undefined);
    }
    this.asked?.(command);
    const plan = command.type === 'hello' ? this.#script.hello : this.#script[this.device]?.[command.type];
    setTimeout(async () => {
      let data;
      try {
        const files = command.type === 'load' ? (command.files ?? (await this.#ordered)) : true;
        data = files ? this.#reply(command, plan) : { type: 'needed', id: command.id };
      } catch (error) {
        data = { type: 'failed', id: command.id, message: error.message, error: sentError(error) };
      }
      if (this.terminated || plan === 'never') return;
      this.onmessage({ data });
    }, 1);
  }

  terminate() {
    this.terminated = true;
    this.#stop.abort(new Error('terminated'));
  }

  #reply({ type, id, text, texts, call, vector, k, centroids, probes, decoys, buckets }, plan) {
    if (plan === 'fatal') return { type: 'fatal', message: 'unreachable executed' };
    if (typeof plan === 'string') return { type: 'failed', id, message: plan };
    switch (type) {
      case 'hello':
        return { type, id, protocol: plan?.protocol ?? PROTOCOL, address: 'https://page.test/worker.js' };
      case 'init':
        return { type: 'done', id };
      case 'load':
        return { type: 'loaded', id, dim: this.#script[this.device]?.dim ?? DIM, maxTokens: 64, device: this.device };
      case 'encode':
        return { type: 'vector', id, vector: new Float32Array(DIM).fill(text.length) };
      case 'count':
        return { type: 'counted', id, tokens: text.length };
      case 'tokens':
        return { type: 'tokens', id, tokens: Uint32Array.from(text, (letter) => letter.charCodeAt(0)) };
      case 'private': {
        const answer = this.#script.private(call);
        return answer.failed ? { type: 'failed', id, ...answer.failed } : { type: 'private', id, answer };
      }
      case 'load_pair':
        return { type: 'loaded', id, dim: 0, maxTokens: 350, device: this.device };
      case 'read':
        return { type: 'numbers', id, numbers: Float64Array.from(texts.flatMap((text) => reading(text))) };
      case 'score':
        return { type: 'numbers', id, numbers: Float64Array.from(texts, (text) => text.length || NaN) };
      case 'local_open':
      case 'local_add':
        return { type: 'done', id };
      case 'local_rank':
        return { type: 'numbers', id, numbers: Float64Array.from(rowsOf(vector, k)) };
      case 'bucket_open':
        this.buckets = centroids.length;
        return { type: 'numbers', id, numbers: Float64Array.of(this.buckets) };
      case 'bucket_choose': {
        const chosen = Array.from({ length: probes + decoys }, (_, at) => (vector[0] + 2 * at) % this.buckets);
        return { type: 'numbers', id, numbers: Float64Array.from(chosen.sort((a, b) => a - b)) };
      }
      case 'bucket_add':
        return { type: 'done', id };
      case 'bucket_rank': {
        const placed = (_, at) => [buckets[at % buckets.length], Math.floor(at / buckets.length), 1 - at / 10];
        return { type: 'numbers', id, numbers: Float64Array.from(Array.from({ length: k }, placed).flat()) };
      }
      case 'measure':
        return { type: 'measured', id, milliseconds: plan ?? 10 };
    }
  }
}

/** The stand-in's ranking: rows from the last number of the vector on, with scores that fall. */
function rowsOf(vector, k) {
  return Array.from({ length: k }, (_, at) => [vector[0] + at, 1 - at / 10]).flat();
}

/** What the stand-in reads in a passage: it is as good as it is long, and its first word is the answer. */
function reading(text) {
  return text ? [text.length, 0, text.split(' ')[0].length, 0.5] : [NaN, NaN, NaN, NaN];
}

/** A manifest whose files a fake `fetch` serves until `restore` is called: after the test, since a fallback fetches again. */
export function tinyModel({ hasVocabulary = false } = {}) {
  const files = new Map();
  const file = (name, length) => {
    const bytes = someBytes(length);
    files.set(`https://server.test/${name}`, bytes);
    return fileOf(bytes, name);
  };
  const manifest = {
    format_version: 1,
    name: 'tiny',
    fingerprint: 'f'.repeat(64),
    dim: DIM,
    similarity: 'dot',
    family: 'bert',
    max_question_tokens: 64,
    encoder: { config: file('config.json', 10), tokenizer: file('tokenizer.json', 20) },
    weights: { f16: file('w.f16', 60), q8: file('w.q8', 30) },
  };
  if (hasVocabulary) manifest.encoder.vocabulary = file('vocabulary.bin', 15);
  const { calls, restore } = fakeFetch((url) => new Response(files.get(url)));
  return { manifest, restore, calls };
}

/** A browser with a GPU until `t` ends. */
export function withGpu(t, more = {}) {
  const original = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  const value = { userAgent: 'test', gpu: { requestAdapter: async () => ({}) }, ...more };
  Object.defineProperty(globalThis, 'navigator', { value, configurable: true });
  t.after(() => (original ? Object.defineProperty(globalThis, 'navigator', original) : delete globalThis.navigator));
}

/** A `localStorage` in memory until `t` ends. */
export function withStorage(t) {
  const map = new Map();
  globalThis.localStorage = { getItem: (key) => map.get(key) ?? null, setItem: (key, value) => map.set(key, value), removeItem: (key) => map.delete(key) };
  t.after(() => delete globalThis.localStorage);
  return map;
}

/** Waits until `holds()`; the test's own time limit ends it otherwise. */
export async function until(holds) {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 1));
}
