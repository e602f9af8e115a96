import { deflateRawSync } from 'node:zlib';
import { FakeWorker } from './fake-worker.mjs';
import { cachesInMemory, fakeFetch, fileOf, someBytes } from './helpers.mjs';

export const BASE = 'https://files.test/dpr/';
export const URL_OF_INDEX = `${BASE}dpr-static.json`;
export const FINGERPRINT = 'f'.repeat(64);
const text = new TextEncoder();

/** A passage of the test's index. */
export const passage = (at) => ({ id: `p${at}`, title: `한국 ${at}`, text: `the text of ${at}`, ...(at % 3 === 0 && { metadata: { year: at } }) });

/** A file of texts, as `dpr index export-static` writes it. */
export function textsOf(passages, perBlock = 4, length = 0) {
  const blocks = [];
  for (let at = 0; at < passages.length; at += perBlock) blocks.push(Buffer.from(JSON.stringify(passages.slice(at, at + perBlock))));
  const packed = blocks.map((block) => deflateRawSync(block));
  const head = Buffer.alloc(24 + blocks.length * 8);
  head.write('DPRF');
  head.writeUInt16LE(3, 4);
  head.writeUInt16LE(1, 6);
  head.writeBigUInt64LE(BigInt(passages.length), 8);
  head.writeUInt32LE(perBlock, 16);
  for (const [at, block] of blocks.entries()) {
    head.writeUInt32LE(packed[at].length, 24 + at * 8);
    head.writeUInt32LE(block.length, 28 + at * 8);
  }
  const bytes = Buffer.concat([head, ...packed]);
  const padding = Math.max(0, length - bytes.length);
  bytes.writeUInt32LE(padding, 20);
  return new Uint8Array(Buffer.concat([bytes, Buffer.alloc(padding)]));
}

/** Bytes of a bucket. */
export const BUCKET_BYTES = 1024;

/** A bucket, as `dpr index export-static --buckets` writes it. */
export function bucketOf(codes, texts, passages) {
  const bytes = Buffer.alloc(BUCKET_BYTES);
  bytes.write('DPRF');
  bytes.writeUInt16LE(5, 4);
  bytes.writeUInt16LE(1, 6);
  bytes.writeBigUInt64LE(BigInt(passages), 8);
  bytes.writeUInt32LE(codes.length, 16);
  bytes.writeUInt32LE(texts.length, 20);
  bytes.set(codes, 24);
  bytes.set(texts, 24 + codes.length);
  return new Uint8Array(bytes);
}

/** Passages of a pack, and its bytes. */
export const PACK = 3;
export const PACK_BYTES = 512;

/**
 * A static host with an index of parts of these sizes, and a browser with a cache, until `t` ends. `host.change(name,
 * bytes)` spoils an answer, `host.isDown` takes the network away. With packs, where `hasPacks`, and with buckets of
 * `bucketSize` passages, where there is one.
 */
export function host(t, sizes = [10, 7], hasPacks = false, bucketSize = 0) {
  const files = new Map();
  const file = (kind, bytes) => {
    const { sha256 } = fileOf(bytes);
    const name = `${kind}.${sha256}.bin`;
    files.set(name, bytes);
    return fileOf(bytes, name);
  };
  const encoder = { config: file('config', someBytes(10)), tokenizer: file('tokenizer', someBytes(20)) };
  const model = {
    ...{ format_version: 1, name: 'tiny', fingerprint: FINGERPRINT, dim: 4, similarity: 'dot', family: 'bert', max_question_tokens: 64 },
    ...{ encoder, weights: { q8: file('q8', someBytes(30)), f16: file('f16', someBytes(60)) } },
  };
  const part = (first, passages) => {
    const all = Array.from({ length: passages }, (_, at) => passage(first + at));
    const packs = [];
    for (let at = 0; hasPacks && at < passages; at += PACK) {
      const some = all.slice(at, at + PACK);
      packs.push({ passages: some.length, ...file('pack', textsOf(some, 1, PACK_BYTES)) });
    }
    return { ...(hasPacks && { packs }), passages, codes: file('codes', text.encode(`codes of ${first} and ${passages}`)), texts: file('texts', textsOf(all)) };
  };
  const bucketsOf = (passages) => {
    const count = Math.floor(passages / bucketSize);
    const members = (bucket) => Array.from({ length: passages }, (_, at) => at).filter((at) => at % count === bucket);
    const made = Array.from({ length: count }, (_, bucket) => {
      const all = members(bucket).map(passage);
      return { passages: all.length, ...file('bucket', bucketOf(text.encode(`codes of ${bucket}`), textsOf(all), all.length)) };
    });
    // The stand-in's worker takes the length of this file for the number of buckets.
    return { least: bucketSize, centroids: file('centroids', someBytes(count)), files: made };
  };
  const manifestOf = (sizes) => {
    let first = 0;
    const parts = sizes.map((size) => part((first += size) - size, size));
    const more = { model: file('model', text.encode(JSON.stringify(model))), projection: file('projection', someBytes(50)) };
    const buckets = bucketSize > 0 && bucketsOf(first);
    return { format_version: buckets ? 2 : 1, passages: first, dim: 4, dims: 4, bits: 4, model_fingerprint: FINGERPRINT, ...more, parts, ...(buckets && { buckets }) };
  };
  const host = { manifest: manifestOf(sizes), isDown: false, spoiled: new Map(), files };
  host.grow = (sizes) => (host.manifest = manifestOf(sizes));
  const { calls, restore } = fakeFetch((url, init) => {
    const name = url.slice(BASE.length);
    if (host.isDown) throw new TypeError('network error');
    if (host.spoiled.has(name)) return host.spoiled.get(name)(init);
    if (name === 'dpr-static.json') return Response.json(host.manifest);
    return files.has(name) ? new Response(files.get(name)) : new Response('', { status: 404 });
  });
  globalThis.caches = cachesInMemory();
  t.after(() => {
    delete globalThis.caches;
    restore();
  });
  const asked = () => calls.splice(0).map(({ url }) => url.slice(BASE.length).replace(/\.[0-9a-f]{64}.*/, ''));
  return Object.assign(host, { asked });
}

/** Options with workers that are recorded. */
export function options(script = {}) {
  const workers = [];
  const createWorker = () => {
    const worker = new FakeWorker(script);
    workers.push(worker);
    return worker;
  };
  return { workers, retry: 0, createWorker };
}
