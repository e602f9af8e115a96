import assert from 'node:assert/strict';
import test from 'node:test';
import { SearchClient } from 'dpr-web';
import { withStorage } from './fake-worker.mjs';
import { cachesInMemory, fileOf } from './helpers.mjs';
import { BASE, BUCKET_BYTES, bucketOf, host, options, passage, textsOf, URL_OF_INDEX } from './static-host.mjs';

const text = new TextEncoder();

/** 33 passages in 11 buckets of 3: passage `at` is in bucket `at % 11`. */
const site = (t) => host(t, [20, 13], false, 3);
const connect = (more = {}) => SearchClient.connect(URL_OF_INDEX, { privacy: { mode: 'bucket', probes: 2, decoys: 2 }, ...options(), ...more });
const numbers = (manifest, urls) => urls.map((url) => manifest.buckets.files.findIndex((file) => url.endsWith(file.url)));
const isRefused = (name, code, says) => (error) => error.name === name && error.code === code && says.test(error.message);

test('the buckets of a question are fetched in the order of their numbers, and what is in them is found', async (t) => {
  withStorage(t);
  const { asked, manifest } = site(t);
  const client = await connect();
  // Neither codes nor texts of the whole.
  assert.deepEqual(asked().sort(), ['centroids', 'config', 'dpr-static.json', 'model', 'projection', 'q8', 'tokenizer']);
  const told = [];
  client.addEventListener('request', ({ detail }) => told.push(detail.request.url));
  // The stand-in chooses buckets by the length of the question: 9, 11, 13 and 15.
  const { hits, request, requests, privacy, timings } = await client.search('123456789', { k: 5 });
  assert.deepEqual(numbers(manifest, requests.map(({ url }) => url)), [0, 2, 4, 9]);
  assert.deepEqual(requests.map(({ method, body, bytes, headers }) => [method, body, bytes, headers]), Array(4).fill(['GET', '', 0, {}]));
  assert.deepEqual([request, told], [requests[0], requests.map(({ url }) => url)]);
  assert.deepEqual(asked(), Array(4).fill('bucket'));
  assert.deepEqual(hits.map(({ score, ...rest }) => rest), [passage(0), passage(2), passage(4), passage(9), passage(11)]);
  assert.deepEqual(privacy.mode, 'bucket');
  assert.match(privacy.sees, /^which 4 of 11 buckets of some 3 passages .* 2 of them decoys/);
  assert.deepEqual([timings.tookMs, timings.searchMs >= 0], [0, true]);

  // The same again, and another with buckets that are kept in part.
  const again = await client.search('123456789', { k: 5 });
  assert.deepEqual([again.hits, again.requests, again.request, asked()], [hits, [], undefined, []]);
  const next = await client.search('12', { k: 1 });
  assert.deepEqual(numbers(manifest, next.requests.map(({ url }) => url)), [6, 8]);
  const modes = await client.privacyModes;
  const onceBytes = manifest.projection.bytes + manifest.buckets.centroids.bytes;
  assert.deepEqual(modes.map(({ mode, onceBytes, upBytes, downBytes }) => [mode, onceBytes, upBytes, downBytes]), [['bucket', onceBytes, 0, undefined]]);
  await client.prepare();
  client.dispose();
  await assert.rejects(client.search('x'), { name: 'DisposedError' });
  asked();

  // At the next visit, buckets come from the browser's cache by their SHA-256.
  const later = await connect();
  assert.deepEqual((await later.search('123456789', { k: 5 })).hits, hits);
  assert.deepEqual(asked(), ['dpr-static.json']);
  later.dispose();
});

test('kept buckets stay when the whole index is opened beside them, and go with the version that they are of', async (t) => {
  withStorage(t);
  const site = host(t, [20, 13], false, 3);
  const kept = () => [...globalThis.caches.map.keys()].filter((key) => site.manifest.buckets.files.some(({ sha256 }) => key.endsWith(sha256)));
  const searched = async () => {
    const client = await connect();
    const { requests } = await client.search('123456789', { k: 5 });
    client.dispose();
    return requests.length;
  };
  const whole = async () => {
    (await SearchClient.connect(URL_OF_INDEX, { privacy: 'local', ...options() })).dispose();
    // Files that no note names go after it is open.
    await new Promise((resolve) => setTimeout(resolve, 20));
  };
  assert.equal(await searched(), 4);
  await whole();
  assert.deepEqual([kept().length, await searched()], [4, 0]);
  const before = site.manifest.buckets.files.map(({ sha256 }) => sha256);
  site.grow([20, 14]);
  await whole();
  const left = [...globalThis.caches.map.keys()].filter((key) => before.some((sha256) => key.endsWith(sha256)));
  assert.deepEqual(left, []);
});

test('the worker gets the key of this browser, which stays the same, and the numbers of the search', async (t) => {
  const storage = withStorage(t);
  site(t);
  const given = options();
  const asks = [];
  const createWorker = () => Object.assign(given.createWorker(), { asked: (command) => command.type === 'bucket_choose' && asks.push(command) });
  const client = await SearchClient.connect(URL_OF_INDEX, { privacy: { mode: 'bucket', probes: 2 }, ...given, createWorker });
  await client.search('a', { k: 1 });
  await client.search('b', { k: 1, privacy: { mode: 'bucket', probes: 1, decoys: 3 } });
  assert.deepEqual(asks.map(({ probes, decoys }) => [probes, decoys]), [[2, 2], [1, 3]]);
  const [kept] = storage.values();
  assert.deepEqual([...new Set(asks.map(({ key }) => Buffer.from(key).toString('base64')))], [kept]);
  client.dispose();
});

test('numbers that cannot be fetched, filters and other modes are refused before anything is fetched', async (t) => {
  withStorage(t);
  const { asked } = site(t);
  const client = await connect();
  asked();
  const search = (privacy, more = {}) => client.search('x', { privacy: { mode: 'bucket', ...privacy }, ...more });
  for (const probes of [0, 3, 16, 1.5, '2']) await assert.rejects(search({ probes }), isRefused('OptionError', 'invalid_option', /probes/));
  for (const decoys of [1, -2, 66, 2.5]) await assert.rejects(search({ probes: 2, decoys }), isRefused('OptionError', 'invalid_option', /decoys/));
  await assert.rejects(search({ probes: 4, decoys: 8 }), isRefused('OptionError', 'invalid_option', /are 12 buckets, the static index has 11/));
  // The default is never made smaller.
  await assert.rejects(search({ probes: 8 }), isRefused('OptionError', 'invalid_option', /16 buckets/));
  await assert.rejects(search({}, { filter: { ids: ['p1'] } }), isRefused('OptionError', 'invalid_option', /filter/));
  await assert.rejects(search({}, { k: 0 }), isRefused('OptionError', 'invalid_option', /k/));
  for (const privacy of ['plain', 'blurred', 'encrypted', 'local']) {
    await assert.rejects(client.search('x', { privacy }), isRefused('PrivacyError', 'not_offered', /./));
    await assert.rejects(client.prepare({ privacy }), isRefused('PrivacyError', 'not_offered', /./));
  }
  assert.deepEqual(asked(), []);
  client.dispose();
  await assert.rejects(connect({ privacy: { mode: 'bucket', probes: 8 } }), isRefused('OptionError', 'invalid_option', /16 buckets/));
  const local = await SearchClient.connect(URL_OF_INDEX, { ...options(), privacy: 'local' });
  asked();
  await assert.rejects(local.search('x', { privacy: 'bucket' }), isRefused('PrivacyError', 'not_offered', /made for local search/));
  local.dispose();
  const server = SearchClient.create(BASE, options());
  await assert.rejects(server.search('x', { privacy: 'bucket' }), isRefused('PrivacyError', 'not_offered', /searches a server/));
  server.dispose();
  assert.deepEqual(asked(), []);
});

test('an index without buckets is a PrivacyError, and is not searched in any other way', async (t) => {
  const { asked } = host(t);
  const given = options();
  await assert.rejects(connect(given), isRefused('PrivacyError', 'not_offered', /no buckets/));
  assert.deepEqual(asked(), ['dpr-static.json', 'model']);
});

test('buckets that are smaller than promised, of several lengths or doubled are refused by the manifest', async (t) => {
  const { manifest, asked } = site(t);
  const good = structuredClone(manifest.buckets);
  const changed = (change) => {
    manifest.buckets = structuredClone(good);
    change(manifest.buckets);
  };
  for (const [change, says] of [
    [(buckets) => (buckets.least = 4), /bucket 0 of the static index has 3 passages, fewer than the 4/],
    [(buckets) => (buckets.least = 0), /buckets.least/],
    [(buckets) => (buckets.files[1].passages = 4), /hold 34 passages, not 33/],
    [(buckets) => buckets.files.pop(), /hold 30 passages/],
    [(buckets) => (buckets.files[2].bytes += 1), /do not all have one length/],
    [(buckets) => (buckets.files[2] = buckets.files[1]), /two buckets/],
    [(buckets) => (buckets.files = []), /buckets.files/],
    [(buckets) => (buckets.files = Array(5000).fill(good.files[0])), /list of 1 to 4096/],
    [(buckets) => delete buckets.centroids, /buckets.centroids/],
  ]) {
    changed(change);
    await assert.rejects(connect(), isRefused('ManifestError', 'invalid_manifest', says), String(says));
    assert.ok(!asked().includes('centroids'));
  }
  // As many buckets as centroids.
  changed(() => undefined);
  const twelve = new Uint8Array(12).fill(7);
  manifest.buckets.centroids = fileOf(twelve, `centroids.${fileOf(twelve).sha256}.bin`);
  t.mock.method(globalThis, 'fetch', ((fetch) => (url, init) => (String(url).endsWith(manifest.buckets.centroids.url) ? Promise.resolve(new Response(twelve)) : fetch(url, init)))(globalThis.fetch));
  await assert.rejects(connect(), isRefused('ManifestError', 'invalid_manifest', /of 12 buckets, it has 11/));
});

test('a bucket that does not check is an error, a decoy as any other, and nothing is found in its place', async (t) => {
  withStorage(t);
  const { files, spoiled, manifest } = site(t);
  const [, , third] = manifest.buckets.files;
  spoiled.set(third.url, () => new Response(files.get(third.url).with(30, 0xee)));
  const client = await connect();
  await assert.rejects(client.search('123456789', { k: 1 }), { name: 'IntegrityError', code: 'corrupted_file', expected: third.sha256 });
  spoiled.clear();
  assert.equal((await client.search('123456789', { k: 1 })).hits.length, 1);
  client.dispose();
  // What the manifest promises otherwise, with the right SHA-256.
  const all = [2, 13, 24].map(passage);
  const good = bucketOf(text.encode('codes of 2'), textsOf(all), 3);
  const put = (bytes) => {
    globalThis.caches = cachesInMemory();
    Object.assign(third, fileOf(bytes, `bucket.${fileOf(bytes).sha256}.bin`));
    files.set(third.url, bytes);
  };
  for (const [bytes, says] of [
    [bucketOf(text.encode('codes'), textsOf(all.slice(1)), 2), /the 3 passages that were promised/],
    [bucketOf(text.encode('codes'), textsOf(all.slice(1)), 3), /texts of 3 passages/],
    [good.with(4, 3), /not a bucket of format 1/],
    [good.with(6, 2), /not a bucket of format 1/],
    [good.with(19, 1), /length of/],
    [good.with(BUCKET_BYTES - 1, 1), /length of/],
  ]) {
    put(bytes);
    const client = await connect();
    await assert.rejects(client.search('123456789', { k: 1 }), isRefused('ManifestError', 'invalid_manifest', says), String(says));
    client.dispose();
  }
  put(good);
  for (const script of [{ bucket_add: 'the codes are of 2 passages' }, { bucket_choose: 'no' }, { bucket_rank: 'no' }]) {
    const client = await connect(options({ cpu: script }));
    await assert.rejects(client.search('123456789', { k: 1 }), isRefused('ManifestError', 'invalid_manifest', /could not be searched/));
    client.dispose();
  }
});

test('a search that is given up fetches no further bucket, and the next one goes on', async (t) => {
  withStorage(t);
  const { asked, spoiled, manifest, files } = site(t);
  const client = await connect();
  asked();
  const controller = new AbortController();
  const { url } = manifest.buckets.files[2];
  spoiled.set(url, ({ signal }) => {
    setTimeout(() => controller.abort(new Error('the user left')), 10);
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  });
  await assert.rejects(client.search('123456789', { k: 1, signal: controller.signal }), /the user left/);
  assert.deepEqual(asked(), ['bucket', 'bucket']);
  spoiled.clear();
  spoiled.set(url, () => new Response(files.get(url)));
  const { requests } = await client.search('123456789', { k: 1 });
  assert.deepEqual(numbers(manifest, requests.map(({ url }) => url)), [2, 4, 9]);
  client.dispose();
});

test('another index than the expected one is refused: by `connect`, and by a search before a bucket is fetched', async (t) => {
  withStorage(t);
  const { asked, manifest } = site(t);
  const { sha256 } = fileOf(text.encode(JSON.stringify(manifest)));
  const refusal = { name: 'ModelMismatchError', what: 'index', expected: '0'.repeat(64), got: sha256 };
  const pinned = (expectIndex) => ({ privacy: { mode: 'bucket', probes: 2, expectIndex } });
  await assert.rejects(connect(pinned('0'.repeat(64))), refusal);
  await assert.rejects(connect({ expect: { index: '0'.repeat(64) } }), refusal);
  const client = await connect({ expect: { index: sha256 } });
  asked();
  await assert.rejects(client.search('x', pinned('0'.repeat(64))), refusal);
  assert.deepEqual(asked(), []);
  assert.equal((await client.search('x', { k: 1, ...pinned(sha256) })).hits.length, 1);
  client.dispose();
});

test('where the worker that ranks has ended, the next search starts another, which gets kept buckets again', async (t) => {
  withStorage(t);
  const { asked } = site(t);
  const given = options();
  const client = await connect(given);
  const { hits } = await client.search('123456789', { k: 5 });
  asked();
  const ranks = () => given.workers.filter(({ commands }) => commands.includes('bucket_open'));
  ranks()[0].onmessage({ data: { type: 'fatal', message: 'unreachable executed' } });
  const again = await client.search('123456789', { k: 5 });
  assert.deepEqual([again.hits, again.requests, asked(), ranks().length], [hits, [], [], 2]);
  assert.deepEqual(ranks()[1].commands.filter((name) => name === 'bucket_add').length, 4);
  // Between the buckets and the ranking: nothing is ranked without its buckets.
  ranks()[1].asked = ({ type }) => type === 'bucket_rank' && ranks()[1].onmessage({ data: { type: 'fatal', message: 'out of memory' } });
  await assert.rejects(client.search('123456789', { k: 5 }), isRefused('EncoderError', 'encoder_failed', /could not be searched: out of memory/));
  assert.deepEqual((await client.search('123456789', { k: 5 })).hits, hits);
  client.dispose();
  assert.ok(given.workers.every(({ terminated }) => terminated));
});

test('a kept bucket that is spoiled is fetched again, and that request is told, as one that fails is', async (t) => {
  withStorage(t);
  const { manifest, spoiled, asked } = site(t);
  const first = await connect();
  const { hits } = await first.search('123456789', { k: 5 });
  first.dispose();
  const { sha256, url } = manifest.buckets.files[2];
  const key = [...globalThis.caches.map.keys()].find((key) => key.endsWith(sha256));
  globalThis.caches.map.set(key, new Response('spoiled'));
  const client = await connect();
  asked();
  const told = [];
  client.addEventListener('request', ({ detail }) => told.push(detail));
  spoiled.set(url, () => new Response('', { status: 404 }));
  await assert.rejects(client.search('123456789', { k: 5 }), { name: 'DownloadError', status: 404 });
  assert.deepEqual([told.length, await told[0].outcome], [1, 'failed']);
  spoiled.clear();
  const again = await client.search('123456789', { k: 5 });
  assert.deepEqual([numbers(manifest, again.requests.map(({ url }) => url)), again.hits], [[2], hits]);
  assert.deepEqual([asked(), told.length, await told[1].outcome], [['bucket', 'bucket'], 2, 'answered']);
  client.dispose();
});
