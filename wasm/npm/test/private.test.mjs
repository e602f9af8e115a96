import assert from 'node:assert/strict';
import test from 'node:test';
import { until, withGpu, withStorage } from './fake-worker.mjs';
import { someBytes } from './helpers.mjs';
import { candidates, CODE, description, privateClient, VERSION } from './private-server.mjs';

/** Files of a reader. */
const READER = { 'r.config': someBytes(11), 'r.tokenizer': someBytes(21), 'r.q8': someBytes(31) };

const is = (name, code) => (error) => error.name === name && error.code === code && error.fix.length > 0;

test('a blurred search sends one request, and ranks the candidates in the page', async (t) => {
  const storage = withStorage(t);
  const { client, posts, asked } = await privateClient(t);
  const { hits, request, requests, privacy, timings } = await client.search('who', { k: 2, privacy: 'blurred' });
  assert.deepEqual(hits.map(({ id, score }) => [id, score]), [['2', 0.9], ['0', 0.5]]);
  assert.deepEqual(posts.map(({ path }) => path), ['v1/private/candidates']);
  assert.deepEqual(Object.keys(JSON.parse(posts[0].body)), ['y', 'level', 'projection', 'model']);
  assert.deepEqual([requests.length, requests[0], timings.tookMs], [1, request, 2]);
  assert.equal(privacy.mode, 'blurred');
  assert.match(privacy.sees, /64 coordinates/);
  const { key, tokens } = asked.find(({ name }) => name === 'blur');
  assert.deepEqual([key.length, [...tokens]], [32, [119, 104, 111]]);
  assert.equal(atob([...storage.values()].at(-1)).length, 32);
});

test('the key of the device stays the same, and that of a session is not kept', async (t) => {
  const storage = withStorage(t);
  const { client, asked } = await privateClient(t);
  await client.search('a', { privacy: { mode: 'blurred', noiseMemory: 'session' } });
  assert.equal([...storage.keys()].filter((name) => name.includes('key')).length, 0);
  await client.search('a', { privacy: 'blurred' });
  await client.search('b', { privacy: 'blurred' });
  const keys = asked.filter(({ name }) => name === 'blur').map(({ key }) => Buffer.from(key).toString('hex'));
  assert.equal(keys[1], keys[2]);
});

test('a kept key that cannot be one is replaced, once', async (t) => {
  for (const broken of ['%%%', '', btoa('short'), `${'_'.repeat(43)}=`]) {
    const storage = withStorage(t);
    const { client, asked } = await privateClient(t);
    await client.search('a', { privacy: 'blurred' });
    const name = [...storage.keys()].find((name) => name.includes('key'));
    storage.set(name, broken);
    await client.search('a', { privacy: 'blurred' });
    assert.equal(atob(storage.get(name)).length, 32, broken);
    const keys = asked.filter(({ name }) => name === 'blur').map(({ key }) => Buffer.from(key).toString('hex'));
    assert.equal(keys[1], Buffer.from(storage.get(name), 'base64').toString('hex'));
  }
});

test('an encrypted search sends two requests of a length that is the same for every question', async (t) => {
  const { client, posts } = await privateClient(t);
  const seen = new Set();
  for (let length = 1; length <= 1000; length++) {
    posts.length = 0;
    const { requests, privacy, hits } = await client.search('w'.repeat(length), { k: 5, privacy: 'encrypted' });
    assert.deepEqual([hits.length, requests.length, privacy.mode], [1, 2, 'encrypted']);
    seen.add(JSON.stringify(posts.map(({ path, body, headers }) => [path, body.length, headers])));
  }
  assert.deepEqual([...seen], [JSON.stringify([
    ['v1/encrypted/rank', 60, { 'content-type': 'application/octet-stream' }],
    ['v1/encrypted/fetch', 150, { 'content-type': 'application/octet-stream' }],
  ])]);
});

test('hints are downloaded once for many searches, and masks are made after each', async (t) => {
  const { client, calls, asked } = await privateClient(t, { options: { privacy: 'encrypted' } });
  await client.prepare({ k: 5 });
  await Promise.all(['a', 'b', 'c'].map((text) => client.search(text, { k: 5 })));
  assert.equal(calls.filter(({ url }) => /encrypted\/files/.test(url)).length, 4);
  assert.equal(calls.filter(({ url }) => url.endsWith('/v1/encrypted')).length, 1);
  // Asked for after everything that waits for the worker.
  await client.privacyModes;
  const searches = asked.filter(({ name }) => name === 'ask').map(({ search }) => search);
  assert.equal(new Set(searches).size, 3);
  assert.ok(asked.filter(({ name }) => name === 'prepare').length >= 3);
});

test('what a server does not offer is an error, and nothing plainer is sent', async (t) => {
  const none = () => Response.json({ error: { code: 'no_private_search', message: 'none' } }, { status: 404 });
  const { client, posts } = await privateClient(t, { routes: { 'v1/private': none, 'v1/encrypted': none } });
  for (const privacy of ['blurred', 'encrypted', { mode: 'blurred', level: 'light' }]) {
    await assert.rejects(client.search('who', { privacy }), is('PrivacyError', 'not_offered'));
    await assert.rejects(client.prepare({ privacy }), is('PrivacyError', 'not_offered'));
  }
  assert.deepEqual((await client.privacyModes).map(({ mode }) => mode), ['plain']);
  assert.deepEqual(posts, []);
});

test('a level that is not offered, a filter, another mode and numbers that cannot be are errors before anything is sent', async (t) => {
  const { client, posts } = await privateClient(t);
  const asked = (options) => client.search('who', options);
  await assert.rejects(asked({ privacy: { mode: 'blurred', level: 'strong' } }), is('PrivacyError', 'not_offered'));
  for (const privacy of ['blurred', 'encrypted']) {
    await assert.rejects(asked({ privacy, filter: { titles: ['Cats'] } }), is('PrivacyError', 'would_reveal'));
    await assert.rejects(asked({ privacy, k: 0 }), is('OptionError', 'invalid_option'));
  }
  for (const k of [11, 1.5]) await assert.rejects(asked({ privacy: 'encrypted', k }), is('OptionError', 'invalid_option'));
  // Named as it was given, before a reader is downloaded.
  const deep = (what) => ({ name: 'OptionError', message: `\`${what}\` is 11`, fix: /^Give 1 to 10: an encrypted search/ });
  await assert.rejects(asked({ privacy: 'encrypted', rerank: { depth: 11 } }), deep('rerank.depth'));
  await assert.rejects(client.answer('who', { privacy: 'encrypted', depth: 11 }), deep('depth'));
  for (const privacy of ['hidden', {}, null, 3]) {
    if (privacy !== null) await assert.rejects(asked({ privacy }), is('OptionError', 'invalid_option'));
  }
  await assert.rejects(asked({ privacy: { mode: 'encrypted', expectVersion: 'cd'.repeat(32) } }), is('VersionError', 'unexpected_version'));
  assert.deepEqual(posts, []);
  await asked({ privacy: { mode: 'encrypted', expectVersion: VERSION.toUpperCase() } });
});

test('the modes are listed with what they cost and show', async (t) => {
  const { client } = await privateClient(t);
  const [plain, blurred, encrypted] = await client.privacyModes;
  assert.deepEqual([plain.mode, plain.sees, plain.onceBytes], ['plain', 'the vector', 0]);
  assert.deepEqual([blurred.mode, blurred.levels, blurred.onceBytes], ['blurred', ['light', 'medium'], 48]);
  assert.deepEqual([encrypted.mode, encrypted.onceBytes, encrypted.upBytes, encrypted.downBytes], ['encrypted', 166, 360, 250]);
});

test('plain search is listed where the server takes vectors, and a mode that it does not describe is not', async (t) => {
  const listed = async (described) => {
    const { client } = await privateClient(t, { routes: { 'v1/private': () => Response.json(described) } });
    return (await client.privacyModes).map(({ mode }) => mode);
  };
  const { blurred } = description();
  assert.deepEqual(await listed({ modes: ['plain', 'blurred', 'encrypted'], blurred }), ['plain', 'blurred', 'encrypted']);
  // `dpr serve --private-only`
  assert.deepEqual(await listed({ modes: ['blurred', 'encrypted'], blurred }), ['blurred', 'encrypted']);
  assert.deepEqual(await listed({ modes: ['encrypted'] }), ['encrypted']);
  const { client, posts } = await privateClient(t, { routes: { 'v1/private': () => Response.json({ modes: ['encrypted'] }) } });
  await assert.rejects(client.search('who', { privacy: 'blurred' }), is('PrivacyError', 'not_offered'));
  assert.deepEqual(posts, []);
});

/** A private client of a server with a reader, on three processors, and when the reader was downloaded. */
async function withReader(t, more = {}) {
  const original = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  Object.defineProperty(globalThis, 'navigator', { value: { userAgent: 'test', hardwareConcurrency: 3 }, configurable: true });
  t.after(() => (original ? Object.defineProperty(globalThis, 'navigator', original) : delete globalThis.navigator));
  withStorage(t);
  let workersThen;
  const counted = (answer) => () => {
    workersThen ??= made.workers.length;
    return answer();
  };
  const routes = {
    'v1/private/candidates': counted(() => Response.json(candidates())),
    'v1/encrypted/rank': counted(() => new Response(someBytes(50))),
    ...more.routes,
  };
  const made = await privateClient(t, { reader: READER, ...more, routes });
  const downloads = () => {
    const first = made.calls.findIndex(({ init }) => init.method === 'POST');
    const of = (calls) => calls.filter(({ url }) => /\/r\.\w+$/.test(url)).length;
    return { before: of(made.calls.slice(0, first)), after: of(made.calls.slice(first)), workers: made.workers.length - workersThen };
  };
  return { ...made, downloads };
}

for (const privacy of ['blurred', 'encrypted']) {
  for (const [what, ask] of [
    ['re-ranking', (client) => client.search('who', { privacy, rerank: {} })],
    ['an answer', (client) => client.answer('who', { privacy })],
  ]) {
    test(`the model for ${what} of ${privacy} search is downloaded before it, and nothing after it tells that it succeeded`, async (t) => {
      const { client, workers, downloads } = await withReader(t);
      await ask(client);
      assert.deepEqual(downloads(), { before: 3, after: 0, workers: 0 });
      assert.equal(workers.length, 4, 'the question encoder\'s, and one for each processor');
    });
  }

  test(`passages that a page found by ${privacy} search of its own are read by a reader that was downloaded before it`, async (t) => {
    const { client, downloads } = await withReader(t);
    assert.deepEqual((await client.answer('', { privacy, hits: [] })).answers, []);
    const { hits } = await client.search('who', { privacy });
    assert.equal((await client.answer('who', { privacy, hits })).answers.length, 1);
    assert.deepEqual(downloads(), { before: 3, after: 0, workers: 0 });
  });
}

test('a reader that could not be downloaded before a private search is not asked for after it', async (t) => {
  const gone = () => new Response('', { status: 404 });
  const { client, downloads, posts } = await withReader(t, { routes: { 'v1/model/files/r.q8': gone }, options: { retry: 0 } });
  const { hits, reranked, rerankError } = await client.search('who', { privacy: 'encrypted', rerank: {} });
  assert.deepEqual([hits.length, reranked, rerankError.code], [1, false, 'download_failed']);
  const { before, after, workers } = downloads();
  assert.ok(before > 0);
  assert.deepEqual([after, workers], [0, 0]);
  posts.length = 0;
  await assert.rejects(client.answer('who', { privacy: 'encrypted' }), is('DownloadError', 'download_failed'));
  assert.deepEqual(posts, []);
});

test('a late refusal does not close what was opened since', async (t) => {
  const refusal = () => Response.json({ error: { code: 'wrong_version', message: 'the tables are old' } }, { status: 409 });
  const held = [];
  const hold = () => new Promise((resolve) => held.push(() => resolve(refusal())));
  let answer = hold;
  const { client, calls } = await privateClient(t, { options: { privacy: 'encrypted' }, routes: { 'v1/encrypted/rank': () => answer() } });
  const descriptions = () => calls.filter(({ url }) => url.endsWith('/v1/encrypted')).length;
  const [early, late] = ['a', 'b'].map((text) => client.search(text));
  await until(() => held.length === 2);
  held[0]();
  await assert.rejects(early, is('ServerError', 'wrong_version'));
  answer = () => new Response(someBytes(50));
  await client.search('c');
  assert.equal(descriptions(), 2, 'a refusal has the next search open it anew');
  held[1]();
  await assert.rejects(late, is('ServerError', 'wrong_version'));
  await client.search('d');
  assert.equal(descriptions(), 2);
});

const refusals = [
  ['parameters of its own', () => ({ ...description().blurred, levels: { medium: { dims: 384, noise: 0 } } }), is('PrivacyError', 'unknown_parameters')],
  ['a projection of another size', () => ({ ...description().blurred, rank: 3 }), is('ManifestError', 'invalid_manifest')],
  ['a huge projection', () => ({ ...description().blurred, dim: 1e9, rank: 1e9 }), is('ManifestError', 'invalid_manifest')],
  ['another file', () => ({ ...description().blurred, projection: { ...description().blurred.projection, sha256: 'a'.repeat(64) } }), is('IntegrityError', 'corrupted_file')],
  ['another model', () => ({ ...description().blurred, model: 'e'.repeat(64) }), is('ServerError', 'wrong_model')],
];
for (const [name, blurred, expected] of refusals) {
  test(`a server that describes ${name} is refused before anything is sent`, async (t) => {
    const { client, posts } = await privateClient(t, { routes: { 'v1/private': () => Response.json({ blurred: blurred() }) } });
    await assert.rejects(client.search('who', { privacy: 'blurred' }), expected);
    assert.deepEqual(posts, []);
  });
}

const answers = [
  ['no JSON', () => new Response('<html>'), is('ServerError', 'unexpected_answer')],
  ['no list', () => Response.json({ took_ms: 1 }), is('ServerError', 'unexpected_answer')],
  ['a code that is cut off', () => Response.json({ ...candidates(), candidates: [{ id: '1', title: '', text: '', code: CODE.slice(0, 4) }] }), is('ServerError', 'unexpected_answer')],
  ['no codes', () => Response.json({ ...candidates(), candidates: [{ id: '1', title: '', text: '' }] }), is('ServerError', 'unexpected_answer')],
  ['a text that is none', () => Response.json({ ...candidates(), candidates: [{ id: '1', title: '', text: 1, code: CODE }] }), is('ServerError', 'unexpected_answer')],
  ['a redirection', () => Promise.reject(new TypeError('redirect')), is('ServerError', 'unreachable')],
  ['another model since', () => Response.json({ error: { code: 'wrong_model', message: 'it changed' } }, { status: 409 }), is('ServerError', 'wrong_model')],
  ['that it is busy', () => Response.json({ error: { code: 'overloaded', message: 'busy' } }, { status: 429 }), is('ServerError', 'overloaded')],
];
for (const [name, answer, expected] of answers) {
  test(`an answer to a blurred question with ${name} is an error, and nothing is sent again`, async (t) => {
    const { client, posts } = await privateClient(t, { routes: { 'v1/private/candidates': answer } });
    await assert.rejects(client.search('who', { privacy: 'blurred' }), expected);
    assert.equal(posts.length, 1);
  });
}

/** A body without an end. */
const endless = () => new Response(new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1 << 16)) }));
/** A body that says nothing. */
const silent = () => new Response(new ReadableStream({}));
const spoiled = { name: 'failed', failed: { message: 'its hash differs', code: 'spoiled_answer' } };

test('a spoiled text is told after both requests, and nothing is sent again', async (t) => {
  const { client, posts } = await privateClient(t, { module: { open: () => spoiled } });
  await assert.rejects(client.search('who', { privacy: 'encrypted' }), is('SpoiledAnswerError', 'spoiled_answer'));
  assert.deepEqual(posts.map(({ path }) => path), ['v1/encrypted/rank', 'v1/encrypted/fetch']);
});

test('a ranking of garbage, or a truncated one, is followed by the same fetch', async (t) => {
  for (const body of [someBytes(50), someBytes(3), new Uint8Array(0)]) {
    const { client, posts, asked } = await privateClient(t, { routes: { 'v1/encrypted/rank': () => new Response(body) } });
    await client.search('who', { k: 5, privacy: 'encrypted' });
    assert.deepEqual(posts.map(({ body }) => body.length), [60, 150]);
    assert.equal(asked.find(({ name }) => name === 'ranked').answer.length, body.length);
  }
});

/** A module that has not heard of so many changes until it is told of them. */
function changing(changes) {
  let known = false;
  const update = () => {
    known = true;
    return {};
  };
  return { ranked: () => ({ changes, isBehind: !known }), update };
}

test('what changed since the tables were made is asked for once, between the two requests', async (t) => {
  const delta = `v1/encrypted/delta/${VERSION}`;
  const { client, posts, asked } = await privateClient(t, { routes: { [delta]: () => new Response(someBytes(77)) }, module: changing(3) });
  const { requests } = await client.search('who', { k: 5, privacy: 'encrypted' });
  assert.deepEqual(requests.map(({ method, url, bytes, body }) => [method, url.replace('https://server.test/', ''), bytes, body.length]), [
    ['POST', 'v1/encrypted/rank', 60, 60],
    ['GET', delta, 0, 0],
    ['POST', 'v1/encrypted/fetch', 150, 150],
  ]);
  assert.deepEqual(asked.filter(({ name }) => name === 'update').map(({ delta }) => delta.length), [77]);
  const { requests: later } = await client.search('what', { k: 5, privacy: 'encrypted' });
  assert.deepEqual(later.map(({ method }) => method), ['POST', 'POST']);
  assert.deepEqual(posts.map(({ body }) => body.length), [60, 150, 60, 150]);
});

test('a page that takes one version of the tables takes no changes of it', async (t) => {
  const { client, posts } = await privateClient(t, { module: changing(3) });
  const pinned = { mode: 'encrypted', expectVersion: VERSION };
  const refused = await client.search('who', { k: 5, privacy: pinned }).then(assert.fail, (error) => error);
  assert.deepEqual([refused.code, refused.got], ['unexpected_version', `${VERSION}+3`]);
  // The usual case, new tables, and this one, which no version covers.
  assert.match(refused.fix, /expect its new version, after `dpr index compact` where it ends in `\+N`;/);
  assert.deepEqual(posts.map(({ path }) => path), ['v1/encrypted/rank']);
});

const deltas = [
  ['that has no end', () => endless(), {}, is('SpoiledAnswerError', 'spoiled_answer')],
  ['that the module refuses', () => new Response(someBytes(9)), { update: () => spoiled }, is('SpoiledAnswerError', 'spoiled_answer')],
  ['that is not there', () => Response.json({ error: { code: 'outdated_tables', message: 'too many' } }, { status: 503 }), {}, is('ServerError', 'outdated_tables')],
];
for (const [name, answer, module, expected] of deltas) {
  test(`a delta ${name} ends the search, and nothing is sent again`, async (t) => {
    const routes = { [`v1/encrypted/delta/${VERSION}`]: answer };
    const { client, posts } = await privateClient(t, { routes, module: { ...changing(1), ...module } });
    await assert.rejects(client.search('who', { k: 5, privacy: 'encrypted' }), expected);
    assert.deepEqual(posts.map(({ path }) => path), ['v1/encrypted/rank']);
  });
}

test('endless answers are cut off, and silent ones end with the time', { timeout: 5000 }, async (t) => {
  for (const path of ['v1/encrypted/rank', 'v1/encrypted/fetch']) {
    const { client } = await privateClient(t, { routes: { [path]: endless } });
    await assert.rejects(client.search('who', { privacy: 'encrypted' }), is('SpoiledAnswerError', 'spoiled_answer'));
    const { client: waiting, posts, asked } = await privateClient(t, { routes: { [path]: silent } });
    await assert.rejects(waiting.search('who', { privacy: 'encrypted', timeout: 30 }), is('ServerError', 'timeout'));
    assert.ok(posts.length <= 2);
    await waiting.privacyModes;
    assert.ok(asked.some(({ name }) => name === 'drop'), 'its masks are forgotten');
  }
  const { client } = await privateClient(t, { routes: { 'v1/private': endless }, options: { retry: 0 } });
  await assert.rejects(client.search('who', { privacy: 'blurred' }), is('SpoiledAnswerError', 'spoiled_answer'));
  const { client: still } = await privateClient(t, { routes: { 'v1/private': silent }, options: { retry: 0, stallTimeout: 30 } });
  await assert.rejects(still.search('who', { privacy: 'blurred' }), is('ServerError', 'timeout'));
});

test('hints that are not those of the manifest are refused, and so is more than a page should download', async (t) => {
  const tables = (bytes) => () => ({ version: VERSION, model: 'f'.repeat(64), dims: 8, traffic: [[1, 1, 1, 1]], files: [{ name: 'rank.hint', bytes, sha256: 'a'.repeat(64) }] });
  const file = { [`v1/encrypted/files/${'a'.repeat(64)}/rank.hint`]: () => new Response(someBytes(9)) };
  const { client, posts } = await privateClient(t, { routes: file, module: { tables: tables(9) } });
  await assert.rejects(client.search('who', { k: 1, privacy: 'encrypted' }), is('IntegrityError', 'corrupted_file'));
  const { client: other } = await privateClient(t, { module: { tables: tables(2 ** 30) } });
  await assert.rejects(other.search('who', { k: 1, privacy: 'encrypted' }), is('PrivacyError', 'too_large'));
  const { client: third } = await privateClient(t, { module: { tables: () => ({ failed: { message: 'set 99', code: 'unknown_parameters' } }) } });
  await assert.rejects(third.search('who', { k: 1, privacy: 'encrypted' }), is('PrivacyError', 'unknown_parameters'));
  assert.deepEqual(posts, []);
});

test('tables that are out of date are asked for again by the next search, not by this one', async (t) => {
  let isOld = true;
  const rank = () => (isOld ? Response.json({ error: { code: 'wrong_version', message: 'they changed' } }, { status: 409 }) : new Response(someBytes(50)));
  const { client, calls, posts } = await privateClient(t, { routes: { 'v1/encrypted/rank': rank } });
  await assert.rejects(client.search('who', { privacy: 'encrypted' }), is('ServerError', 'wrong_version'));
  assert.equal(posts.length, 1);
  isOld = false;
  await client.search('who', { privacy: 'encrypted' });
  assert.equal(calls.filter(({ url }) => url.endsWith('/v1/encrypted')).length, 2);
});

test('an abort ends a private search with the reason, and each request is told as an event', async (t) => {
  const { client } = await privateClient(t, { routes: { 'v1/encrypted/fetch': silent } });
  const controller = new AbortController();
  const told = [];
  client.addEventListener('request', ({ detail }) => {
    told.push(detail);
    if (told.length === 2) controller.abort(new Error('enough'));
  });
  await assert.rejects(client.search('who', { privacy: 'encrypted', signal: controller.signal }), /enough/);
  assert.deepEqual(await Promise.all(told.map(({ outcome }) => outcome)), ['answered', 'aborted']);
});

test('where the encoder is on the GPU, a worker of its own computes, once for all searches', async (t) => {
  withGpu(t);
  const { client, workers } = await privateClient(t, { options: { device: 'webgpu' } });
  await client.search('who', { privacy: 'encrypted' });
  await client.search('what', { privacy: 'blurred' });
  assert.deepEqual(workers.map(({ device }) => device), ['webgpu', 'cpu']);
  assert.ok(!workers[0].commands.includes('private') && workers[1].commands.includes('private'));
  client.dispose();
  assert.ok(workers.every(({ terminated }) => terminated));
});

test('where timing may still move the encoder to the GPU, a worker of its own computes, and what is half done is done', async (t) => {
  withGpu(t);
  const { client, workers } = await privateClient(t, { options: { device: 'auto' } });
  const { requests } = await client.search('who', { privacy: 'encrypted' });
  assert.equal(requests.length, 2);
  const encoding = workers.filter(({ commands }) => commands.includes('encode'));
  assert.ok(encoding.length > 0 && encoding.every(({ commands }) => !commands.includes('private')));
  // Where nothing is timed, the encoder's worker computes too.
  const still = await privateClient(t, { options: { device: 'auto', measure: 'never' } });
  await still.client.search('who', { privacy: 'encrypted' });
  assert.deepEqual(still.workers.map(({ commands }) => commands.includes('private')), [true]);
});

test('a description whose fingerprint is spelled in other letters is of another model: noise is made from the letters', async (t) => {
  const upper = () => {
    const described = description();
    described.blurred.model = described.blurred.model.toUpperCase();
    return Response.json(described);
  };
  const { client, asked, posts } = await privateClient(t, { routes: { 'v1/private': upper } });
  await assert.rejects(client.search('who', { privacy: 'blurred' }), is('ServerError', 'wrong_model'));
  assert.deepEqual([asked.filter(({ name }) => name === 'blur'), posts], [[], []]);
});

test('a level without its noise is not one of this release', async (t) => {
  const without = () => {
    const described = description();
    delete described.blurred.levels.medium.noise;
    return Response.json(described);
  };
  const { client, posts } = await privateClient(t, { routes: { 'v1/private': without } });
  await assert.rejects(client.search('who', { privacy: 'blurred' }), is('PrivacyError', 'unknown_parameters'));
  assert.deepEqual(posts, []);
});

test('a worker that ends is replaced, and what it had is made again', async (t) => {
  const { client, workers, asked } = await privateClient(t);
  await client.search('who', { privacy: 'encrypted' });
  workers[0].onmessage({ data: { type: 'fatal', message: 'unreachable executed' } });
  await client.search('who', { privacy: 'encrypted' });
  assert.equal(workers.length, 2);
  assert.equal(asked.filter(({ name }) => name === 'files').length, 2);
});

test('a plain search says that it was one', async (t) => {
  const { client } = await privateClient(t, { routes: { 'v1/search': () => Response.json({ hits: [], took_ms: 1 }) }, options: { privacy: 'encrypted' } });
  const { requests, request, privacy } = await client.search('who', { privacy: 'plain' });
  assert.deepEqual([requests, privacy.mode], [[request], 'plain']);
});
