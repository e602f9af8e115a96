import assert from 'node:assert/strict';
import test from 'node:test';
import { OptionError, SearchClient } from 'dpr-web';
import { LocalSearch } from 'dpr-web/local';
import { until } from './fake-worker.mjs';
import { brokenBody, cachesInMemory, fileOf, someBytes } from './helpers.mjs';
import { BASE, FINGERPRINT, host, options, PACK_BYTES, passage, textsOf, URL_OF_INDEX } from './static-host.mjs';

const text = new TextEncoder();

const open = (more = {}) => LocalSearch.open(URL_OF_INDEX, { ...options(), ...more });

test('passages are found with their texts, and nothing is requested by a search', async (t) => {
  const { asked } = host(t);
  const events = [];
  const search = await open({ onProgress: (event) => events.push(event) });
  assert.deepEqual(asked().sort(), ['codes', 'codes', 'config', 'dpr-static.json', 'model', 'projection', 'q8', 'texts', 'texts', 'tokenizer']);
  assert.equal(search.passages, 17);
  assert.ok(events.some(({ status }) => status === 'ready'));
  // The stand-in's best row is the length of the question: 8 and 9 are of the first part, 10 of the second.
  const { hits, timings, requests } = await search.search('12345678', { k: 3 });
  assert.deepEqual(hits.map(({ score, ...rest }) => rest), [passage(8), passage(9), passage(10)]);
  assert.deepEqual(hits.map(({ score }) => score), [1, 0.9, 0.8]);
  assert.deepEqual(requests, []);
  assert.ok(Object.values(timings).every((time) => time >= 0));
  assert.deepEqual(asked(), []);
  for (const k of [0, 1.5, Number.NaN]) await assert.rejects(search.search('x', { k }), { name: 'OptionError', code: 'invalid_option' });
  search.dispose();
  await assert.rejects(search.search('x'), { name: 'DisposedError' });
});

test('a second visit asks for the manifest alone, and without a network for nothing that must be answered', async (t) => {
  const site = host(t);
  (await open()).dispose();
  site.asked();
  (await open()).dispose();
  assert.deepEqual(site.asked(), ['dpr-static.json']);
  site.isDown = true;
  const search = await open();
  assert.deepEqual((await search.search('ab', { k: 1 })).hits[0].id, 'p2');
  assert.deepEqual(site.asked(), ['dpr-static.json']);
  globalThis.caches = cachesInMemory();
  await assert.rejects(open(), { name: 'DownloadError', status: 0 });
});

test('of an index that was updated only files that changed are downloaded, and those that are gone leave the cache', async (t) => {
  const site = host(t);
  (await open()).dispose();
  const before = site.manifest.parts[1].codes.sha256;
  site.asked();
  site.grow([10, 8]);
  (await open()).dispose();
  assert.deepEqual(site.asked().sort(), ['codes', 'dpr-static.json', 'texts']);
  await new Promise((resolve) => setTimeout(resolve, 20));
  const keys = [...globalThis.caches.map.keys()];
  assert.ok(!keys.some((key) => key.endsWith(before)));
  assert.ok(site.manifest.parts.every(({ codes }) => keys.some((key) => key.endsWith(codes.sha256))));
});

test('a corrupted file is an IntegrityError, is not kept, and ends the workers', async (t) => {
  const site = host(t);
  for (const kind of ['codes', 'texts']) {
    const { url, sha256 } = site.manifest.parts[1][kind];
    site.spoiled.set(url, () => new Response(site.files.get(url).with(3, 0xee)));
    const given = options();
    await assert.rejects(LocalSearch.open(URL_OF_INDEX, given), { name: 'IntegrityError', code: 'corrupted_file', expected: sha256 });
    assert.ok(![...globalThis.caches.map.keys()].some((key) => key.endsWith(sha256)));
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.ok(given.workers.every(({ terminated }) => terminated));
    site.spoiled.clear();
  }
  (await open()).dispose();
});

test('an index that is not the expected one is refused before any of its files is downloaded', async (t) => {
  const site = host(t);
  const sha256 = fileOf(text.encode(JSON.stringify(site.manifest))).sha256;
  await assert.rejects(open({ expect: { index: '0'.repeat(64) } }), {
    name: 'ModelMismatchError',
    what: 'index',
    got: sha256,
    message: `the static index is not the expected one: its SHA-256 is ${sha256}, expected ${'0'.repeat(64)}`,
    fix: /^If the static index .* `expectIndex` \(or `expect\.index`\)/,
  });
  assert.deepEqual(site.asked(), ['dpr-static.json']);
  await assert.rejects(open({ expect: { fingerprint: '0'.repeat(64) } }), { name: 'ModelMismatchError', what: 'fingerprint' });
  assert.deepEqual(site.asked(), ['dpr-static.json', 'model']);
  (await open({ expect: { index: sha256.toUpperCase(), fingerprint: FINGERPRINT } })).dispose();
});

test('an error of this package that the page\'s own `headers` or `fetch` throws is passed on as it is', async (t) => {
  host(t);
  const own = new OptionError('no key is left', 'Sign in.');
  const broken = new TypeError('no key is left');
  for (const name of ['headers', 'fetch']) {
    const failing = (error) => open({ [name]: () => Promise.reject(error), retry: 0 });
    await assert.rejects(failing(own), (error) => error === own);
    await assert.rejects(failing(broken), { name: 'DownloadError', status: 0, cause: broken });
  }
});

test('what is aborted leaves what was downloaded, and is taken up there', async (t) => {
  const site = host(t);
  const controller = new AbortController();
  const { url } = site.manifest.parts[1].texts;
  site.spoiled.set(url, ({ signal }) => {
    setTimeout(() => controller.abort(new Error('the user left')), 10);
    const start = (stream) => {
      stream.enqueue(site.files.get(url).slice(0, 9));
      signal.addEventListener('abort', () => stream.error(signal.reason));
    };
    return new Response(new ReadableStream({ start }));
  });
  const given = options();
  await assert.rejects(LocalSearch.open(URL_OF_INDEX, { ...given, signal: controller.signal }), /the user left/);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok(given.workers.every(({ terminated }) => terminated));
  site.asked();
  site.spoiled.clear();
  (await open()).dispose();
  assert.deepEqual(site.asked(), ['dpr-static.json', 'texts']);
});

test('a broken connection is taken up where it broke', async (t) => {
  const site = host(t);
  const { url } = site.manifest.parts[0].texts;
  const bytes = site.files.get(url);
  let asked = 0;
  site.spoiled.set(url, () => {
    if (asked++ > 0) return new Response(bytes.slice(20), { status: 206 });
    let sent = false;
    return new Response(
      new ReadableStream({
        pull(stream) {
          if (sent) stream.error(new TypeError('network error'));
          else stream.enqueue(bytes.slice(0, 20));
          sent = true;
        },
      }),
    );
  });
  const events = [];
  (await open({ retry: { limit: 1, delay: () => 1 }, onProgress: (event) => events.push(event) })).dispose();
  assert.ok(events.some(({ status, resumedAt }) => status === 'download' && resumedAt === 20));
});

test('manifests that make no sense are refused with what is wrong', async (t) => {
  const site = host(t);
  const good = structuredClone(site.manifest);
  for (const [change, says] of [
    [{ format_version: 3 }, /format_version 3/],
    [{ bits: 8 }, /codes of 8 bits/],
    [{ model_fingerprint: 'x' }, /model_fingerprint/],
    [{ passages: 18 }, /hold 17 passages, not 18/],
    [{ passages: 0 }, /`passages` of the static index is 0/],
    [{ passages: 1e9 }, /from 1 to 250000/],
    [{ dim: 5 }, /another model/],
    [{ parts: {} }, /`parts`/],
    [{ parts: [{ ...good.parts[0], codes: { ...good.parts[0].codes, bytes: 1e12 } }] }, /parts\[0\].codes.bytes/],
    [{ projection: undefined }, /projection/],
  ]) {
    site.manifest = { ...good, ...change };
    await assert.rejects(open(), (error) => error.name === 'ManifestError' && says.test(error.message), String(says));
  }
  site.spoiled.set('dpr-static.json', () => new Response('<!doctype html>'));
  await assert.rejects(open(), { name: 'ManifestError', message: /JSON/ });
  site.spoiled.set('dpr-static.json', () => new Response('', { status: 404 }));
  await assert.rejects(open(), { name: 'DownloadError', status: 404 });
});

test('texts and codes that make no sense are ManifestErrors', async (t) => {
  const site = host(t, [10]);
  const part = site.manifest.parts[0];
  const good = textsOf(Array.from({ length: 10 }, (_, at) => passage(at)));
  const put = (bytes) => {
    part.texts = fileOf(bytes, `texts.${fileOf(bytes).sha256}.bin`);
    site.files.set(part.texts.url, bytes);
  };
  for (const bytes of [good.slice(0, 20), good.slice(0, -1), good.with(4, 9), good.with(6, 2), good.with(8, 11), good.with(16, 0), Uint8Array.from([...good, 0])]) {
    put(bytes);
    await assert.rejects(open(), { name: 'ManifestError' });
  }
  // A block says how long it is, and holds as many passages as it should.
  const view = new DataView(good.slice().buffer);
  for (const more of [1, -1]) {
    view.setUint32(28, new DataView(good.buffer).getUint32(28, true) + more, true);
    put(new Uint8Array(view.buffer.slice(0)));
    const search = await open();
    await assert.rejects(search.search('x', { k: 1 }), { name: 'ManifestError', message: /block 0/ });
    search.dispose();
  }
  put(good);
  await assert.rejects(open(options({ cpu: { local_add: 'the codes are of 3 passages' } })), { name: 'ManifestError', message: /could not be opened: the codes are of 3/ });
  await assert.rejects(open(options({ cpu: { local_open: 'fatal' } })), { name: 'EncoderError' });
});

test('without `crypto.subtle` nothing is downloaded', async (t) => {
  const site = host(t);
  const original = Object.getOwnPropertyDescriptor(globalThis, 'crypto');
  Object.defineProperty(globalThis, 'crypto', { value: {}, configurable: true });
  t.after(() => Object.defineProperty(globalThis, 'crypto', original));
  await assert.rejects(open(), { name: 'InsecureContextError' });
  assert.deepEqual(site.asked(), []);
});

const connect = (more = {}) => SearchClient.connect(URL_OF_INDEX, { privacy: 'local', ...options(), ...more });

test('a client with the mode `local` searches a static index: it finds what `LocalSearch` finds, and requests nothing', async (t) => {
  const { asked, manifest } = host(t);
  const client = await connect();
  assert.ok(asked().includes('dpr-static.json'));
  const told = [];
  client.addEventListener('request', ({ detail }) => told.push(detail));
  for (const privacy of [undefined, 'local', { mode: 'local' }]) {
    const { hits, request, requests, privacy: did, timings } = await client.search('12345678', { k: 3, privacy });
    assert.deepEqual(hits.map(({ score, ...rest }) => rest), [passage(8), passage(9), passage(10)]);
    assert.deepEqual([request, requests, did.mode, timings.tookMs], [undefined, [], 'local', 0]);
    assert.match(did.sees, /^nothing/);
  }
  assert.deepEqual((await client.searchMany(['1', '22'], { k: 1 })).map(({ hits }) => hits[0].id), ['p1', 'p2']);
  const onceBytes = [manifest.projection, ...manifest.parts.flatMap(({ codes, texts }) => [codes, texts])].reduce((sum, { bytes }) => sum + bytes, 0);
  assert.deepEqual((await client.privacyModes).map(({ mode, onceBytes, upBytes, downBytes }) => [mode, onceBytes, upBytes, downBytes]), [['local', onceBytes, 0, 0]]);
  await client.prepare();
  assert.equal((await client.encodeMany(['abc']))[0].length, 4);
  assert.deepEqual([asked(), told], [[], []]);
  client.dispose();
  await assert.rejects(client.search('x'), { name: 'DisposedError' });
});

test('of a client with the mode `local` there is no way to a server, and of one with a server none to `local`', async (t) => {
  const { asked } = host(t);
  const client = await connect();
  asked();
  for (const privacy of ['plain', 'blurred', 'encrypted', { mode: 'blurred', level: 'strong' }]) {
    await assert.rejects(client.search('x', { privacy }), { name: 'PrivacyError', code: 'not_offered' });
    await assert.rejects(client.prepare({ privacy }), { name: 'PrivacyError', code: 'not_offered' });
  }
  await assert.rejects(client.search('x', { filter: { ids: ['p1'] } }), { name: 'OptionError' });
  await assert.rejects(client.search('x', { k: 0 }), { name: 'OptionError' });
  await assert.rejects(client.answer('x'), { name: 'ManifestError', code: 'no_reader' });
  const { hits, reranked, rerankError } = await client.search('1', { k: 1, rerank: { depth: 3 } });
  assert.deepEqual([hits[0].id, reranked, rerankError.code], ['p1', false, 'no_reader']);
  assert.deepEqual(asked(), []);
  client.dispose();
  const server = SearchClient.create(BASE, options());
  await assert.rejects(server.search('x', { privacy: 'local' }), { name: 'PrivacyError', code: 'not_offered', fix: /dpr-static\.json/ });
  await assert.rejects(server.prepare({ privacy: 'local' }), { name: 'PrivacyError', code: 'not_offered' });
  assert.deepEqual(asked(), []);
  server.dispose();
});

test('a client with the mode `local` rejects what `LocalSearch` rejects, and loads again when it is asked again', async (t) => {
  const site = host(t);
  const sha256 = fileOf(text.encode(JSON.stringify(site.manifest))).sha256;
  await assert.rejects(connect({ privacy: { mode: 'local', expectIndex: '0'.repeat(64) } }), { name: 'ModelMismatchError', what: 'index', got: sha256 });
  (await connect({ privacy: { mode: 'local', expectIndex: sha256 }, expect: { fingerprint: FINGERPRINT } })).dispose();
  // As `LocalSearch` takes it; `expectIndex` goes before it.
  await assert.rejects(connect({ expect: { index: '0'.repeat(64) } }), { name: 'ModelMismatchError', what: 'index', got: sha256 });
  (await connect({ privacy: { mode: 'local', expectIndex: sha256 }, expect: { index: '0'.repeat(64) } })).dispose();
  site.spoiled.set('dpr-static.json', () => new Response('<!doctype html>'));
  const given = options();
  const client = SearchClient.create(URL_OF_INDEX, { privacy: 'local', ...given });
  await assert.rejects(client.search('x'), { name: 'ManifestError' });
  assert.equal(client.state, 'failed');
  site.spoiled.clear();
  assert.equal((await client.search('x', { k: 1 })).hits[0].id, 'p1');
  client.dispose();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok(given.workers.every(({ terminated }) => terminated));
});

test('with packs no text is downloaded before a passage was found, and a search fetches the packs of what it found, once', async (t) => {
  const site = host(t, [10, 7], true);
  const search = await open({ texts: 'packs' });
  assert.deepEqual(site.asked().sort(), ['codes', 'codes', 'config', 'dpr-static.json', 'model', 'projection', 'q8', 'tokenizer']);
  assert.equal(search.packs, 4 + 3);
  // Rows 8, 9 and 10: the third and the fourth pack of the first part, and the first of the second.
  const [, , third, fourth] = site.manifest.parts[0].packs;
  const [other] = site.manifest.parts[1].packs;
  const { hits, requests } = await search.search('12345678', { k: 3 });
  assert.deepEqual(hits.map(({ score, ...rest }) => rest), [passage(8), passage(9), passage(10)]);
  assert.deepEqual(requests, [third, fourth, other].map(({ url }) => ({ method: 'GET', url: BASE + url, headers: {}, body: '', bytes: 0 })));
  assert.ok([third, fourth, other].every(({ bytes }) => bytes === PACK_BYTES));
  assert.deepEqual(site.asked(), ['pack', 'pack', 'pack']);
  assert.deepEqual((await search.search('12345678', { k: 3 })).requests, []);
  search.dispose();
  // Another visit: what was fetched is kept, and needs no network.
  const again = await open({ texts: 'packs' });
  site.isDown = true;
  site.asked();
  assert.deepEqual((await again.search('12345678', { k: 2 })).hits.map(({ id }) => id), ['p8', 'p9']);
  assert.deepEqual(site.asked(), []);
  await assert.rejects(again.search('1', { k: 1 }), { name: 'DownloadError' });
  site.isDown = false;
  assert.equal((await again.search('1', { k: 1 })).hits[0].id, 'p1');
  again.dispose();
});

test('a search that is aborted, or fails, takes no other along that wants the same pack', async (t) => {
  const site = host(t, [10, 7], true);
  const search = await open({ texts: 'packs' });
  const { url } = site.manifest.parts[0].packs[0];
  const controller = new AbortController();
  let asked = 0;
  site.spoiled.set(url, ({ signal }) => {
    asked += 1;
    if (asked > 1) return new Response(site.files.get(url));
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  });
  const gone = search.search('1', { k: 1, signal: controller.signal });
  const rejected = assert.rejects(gone, /the user left/);
  const staying = search.search('1', { k: 1 });
  await until(() => asked === 1);
  await new Promise((resolve) => setTimeout(resolve, 20));
  controller.abort(new Error('the user left'));
  await rejected;
  assert.equal((await staying).hits[0].id, 'p1');
  assert.equal(asked, 2);
  search.dispose();
});

test('without packs they are a PrivacyError and nothing else is downloaded; who downloads everything needs none', async (t) => {
  const site = host(t);
  await assert.rejects(open({ texts: 'packs' }), { name: 'PrivacyError', code: 'not_offered', fix: /--pack-bytes/ });
  assert.deepEqual(site.asked(), ['dpr-static.json', 'model']);
  await assert.rejects(open({ texts: 'some' }), { name: 'OptionError' });
  const packed = host(t, [10, 7], true);
  const search = await open();
  assert.ok(!packed.asked().includes('pack'));
  assert.deepEqual([(await search.search('12345678', { k: 3 })).requests, search.packs, packed.asked()], [[], 0, []]);
  search.dispose();
});

test('a client says which packs were fetched, as events, in the result and in words', async (t) => {
  const site = host(t, [10, 7], true);
  const client = await connect({ privacy: { mode: 'local', texts: 'packs' } });
  const told = [];
  client.addEventListener('request', ({ detail }) => told.push(detail.request));
  const { request, requests, privacy } = await client.search('1', { k: 3 });
  assert.deepEqual([request, requests.length, told], [requests[0], 2, requests]);
  assert.match(privacy.sees, /^which of 7 packs of some 2 passages/);
  assert.match((await client.search('1', { k: 3 })).privacy.sees, /^nothing/);
  const [{ onceBytes, downBytes }] = await client.privacyModes;
  const { parts, projection } = site.manifest;
  assert.deepEqual([onceBytes, downBytes], [parts.reduce((sum, { codes }) => sum + codes.bytes, projection.bytes), undefined]);
  client.dispose();
});

test('each try of a pack is told with its own outcome, without the values of the page\'s own headers', async (t) => {
  const site = host(t, [10, 7], true);
  const client = await connect({ privacy: { mode: 'local', texts: 'packs' }, retry: { limit: 2, delay: () => 0 }, headers: { 'x-key': 'secret' } });
  const { url } = site.manifest.parts[0].packs[0];
  const pack = site.files.get(url);
  const tries = [() => new Response('', { status: 503 }), () => new Response(brokenBody(pack.slice(0, 100))), () => new Response(pack.slice(100), { status: 206 })];
  site.spoiled.set(url, () => tries.shift()());
  const told = [];
  client.addEventListener('request', ({ detail }) => told.push(detail));
  const { requests } = await client.search('1', { k: 1 });
  const own = { 'x-key': '(hidden)' };
  assert.deepEqual(requests.map(({ headers }) => headers), [own, own, { ...own, range: 'bytes=100-' }]);
  assert.deepEqual([told.map(({ request }) => request), await Promise.all(told.map(({ outcome }) => outcome))], [requests, ['failed', 'failed', 'answered']]);
  // All of it comes, and is another file.
  const next = site.manifest.parts[0].packs[1].url;
  site.spoiled.set(next, () => new Response(site.files.get(next).with(40, 0xee)));
  await assert.rejects(client.search('333', { k: 1 }), { name: 'IntegrityError' });
  assert.deepEqual([told.length, await told[3].outcome], [4, 'failed']);
  client.dispose();
});

test('a pack whose request never left is not told', async (t) => {
  host(t, [10, 7], true);
  let isGone = false;
  const headers = () => {
    if (isGone) throw new Error('the key is gone');
    return {};
  };
  const client = await connect({ privacy: { mode: 'local', texts: 'packs' }, headers });
  const told = [];
  client.addEventListener('request', ({ detail }) => told.push(detail));
  isGone = true;
  await assert.rejects(client.search('1', { k: 1 }), (error) => error.name === 'DownloadError' && error.cause.message === 'the key is gone');
  assert.deepEqual(told, []);
  client.dispose();
});

test('a pack that is not the one that was promised, or makes no sense, is an error of that search alone', async (t) => {
  const site = host(t, [10], true);
  const good = structuredClone(site.manifest);
  const search = await open({ texts: 'packs' });
  const { url, sha256 } = site.manifest.parts[0].packs[0];
  for (const bad of [site.files.get(url).with(40, 0xee), site.files.get(url).slice(0, 30), new Uint8Array(4 * PACK_BYTES)]) {
    site.spoiled.set(url, () => new Response(bad));
    await assert.rejects(search.search('1', { k: 1 }), (error) => ['IntegrityError', 'DownloadError'].includes(error.name));
  }
  assert.ok(![...globalThis.caches.map.keys()].some((key) => key.endsWith(sha256)));
  site.spoiled.clear();
  assert.equal((await search.search('1', { k: 1 })).hits[0].id, 'p1');
  search.dispose();
  // Named by the manifest, and still no pack.
  const bytes = site.files.get(url);
  for (const bad of [bytes.with(20, 0), bytes.slice(0, 23), bytes.with(8, 9), bytes.with(16, 0), bytes.with(23, 0xff), someBytes(PACK_BYTES)]) {
    const file = fileOf(bad, `pack.${fileOf(bad).sha256}.bin`);
    site.files.set(file.url, bad);
    site.manifest = structuredClone(good);
    Object.assign(site.manifest.parts[0].packs[0], file);
    const search = await open({ texts: 'packs' });
    await assert.rejects(search.search('1', { k: 1 }), { name: 'ManifestError', code: 'invalid_manifest' });
    search.dispose();
  }
  for (const [packs, says] of [
    [{}, /`parts\[0\]\.packs`/],
    [good.parts[0].packs.slice(1), /hold 7 passages, not 10/],
    [[{ ...good.parts[0].packs[0], passages: 0 }], /packs\[0\]\.passages/],
    [[{ ...good.parts[0].packs[0], bytes: 1e12, passages: 10 }], /packs\[0\]/],
  ]) {
    site.manifest = structuredClone(good);
    site.manifest.parts[0].packs = packs;
    await assert.rejects(open({ texts: 'packs' }), (error) => error.name === 'ManifestError' && says.test(error.message), String(says));
  }
});

test('a search that expects another index is refused before a pack is fetched', async (t) => {
  const site = host(t, [10, 7], true);
  const sha256 = fileOf(text.encode(JSON.stringify(site.manifest))).sha256;
  const client = await connect({ privacy: { mode: 'local', texts: 'packs' } });
  site.asked();
  const search = (expectIndex) => client.search('x', { privacy: { mode: 'local', expectIndex } });
  await assert.rejects(search('0'.repeat(64)), { name: 'ModelMismatchError', what: 'index', expected: '0'.repeat(64), got: sha256 });
  assert.deepEqual(site.asked(), []);
  assert.equal((await search(sha256.toUpperCase())).hits.length, 10);
  client.dispose();
});

test('where the worker that ranks has ended, the next search opens the index in another, from the cache', async (t) => {
  const site = host(t);
  const given = options();
  const client = await connect(given);
  site.asked();
  const ranks = () => given.workers.filter(({ commands }) => commands.includes('local_open'));
  ranks()[0].onmessage({ data: { type: 'fatal', message: 'unreachable executed' } });
  const found = await Promise.all(['22', '333'].map((text) => client.search(text, { k: 1 })));
  assert.deepEqual(found.map(({ hits }) => hits[0].id), ['p2', 'p3']);
  assert.deepEqual([site.asked(), ranks().length, ranks()[1].commands.filter((name) => name === 'local_add').length], [[], 2, 2]);
  // At work when it ends: that search alone is lost.
  ranks()[1].asked = ({ type }) => type === 'local_rank' && ranks()[1].onmessage({ data: { type: 'fatal', message: 'out of memory' } });
  await assert.rejects(client.search('22'), { name: 'EncoderError', message: /could not be searched: out of memory/, fix: 'Try again, or reload the page.' });
  assert.equal((await client.search('22', { k: 1 })).hits[0].id, 'p2');
  client.dispose();
  await assert.rejects(client.search('x'), { name: 'DisposedError' });
  assert.ok(given.workers.every(({ terminated }) => terminated));
});

test('what no note names stays in the cache with `keepOldModels`, and goes without', async (t) => {
  host(t);
  const key = `https://dpr-web.invalid/sha256/${'a'.repeat(64)}`;
  globalThis.caches.map.set(key, new Response('old'));
  (await connect({ keepOldModels: true })).dispose();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok(globalThis.caches.map.has(key));
  (await connect()).dispose();
  await until(() => !globalThis.caches.map.has(key));
});

test('a static index has one encoder: `small` is refused before anything is asked for', async (t) => {
  const { asked } = host(t);
  for (const privacy of ['local', 'bucket']) {
    await assert.rejects(connect({ privacy, encoder: 'small' }), { name: 'OptionError', message: '`encoder` is small', fix: /one encoder/ });
  }
  assert.deepEqual(asked(), []);
});
