import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Page } from '@playwright/test';
import { openPanels, violations, violationsInAll } from './support/axe.ts';
import { ask, expect, openBlank, openDemo, ready, test } from './support/fixtures.ts';
import type { Gateway } from './support/gateway.ts';
import { repository } from './support/paths.ts';
import { offerReader, smallReader } from './support/reader.ts';
import { startServer } from './support/serve.ts';
import { squadQuestions } from './support/squad.ts';

const DPR = repository('target/release/dpr', 'DPR_BIN');
const MODEL = repository('data/model', 'DPR_MODEL');
/** Passages of a search. */
const K = 5;

let folder: string;
let server: { url: string; stop(): Promise<void> };
/** With a static index beside its page. */
let web: string;

const dpr = (...line: string[]) => execFileSync(DPR, line, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });

test.beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'dpr-private-'));
  const [index, blur] = [path.join(folder, 'index'), path.join(folder, 'blur')];
  // Tables are put beside the index.
  cpSync(repository('data/index', 'DPR_INDEX'), index, { recursive: true });
  dpr('index', 'blur', '--index', index, '--out', blur);
  dpr('index', 'private', '--index', index);
  web = path.join(folder, 'web');
  cpSync(repository('web-demo/dist', 'DPR_WEB'), web, { recursive: true });
  dpr('index', 'export-static', '--model', MODEL, '--index', index, '--buckets', '--bucket-size', '100', '--out', path.join(web, 'dpr'));
  server = await startServer({ DPR_INDEX: index, DPR_WEB: web, more: ['--blur', blur, '--encrypted'] });
});

test.afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** A client on the blank page, in `window.client`. */
async function connect(page: Page, gateway: Gateway): Promise<void> {
  gateway.serve(server.url);
  await openBlank(page, gateway);
  await page.evaluate(async () => {
    const client = await window.dpr.SearchClient.connect('/', { device: 'cpu' });
    Object.assign(window, { client });
  });
}

/** The ids and scores that questions find in a mode, five each. */
function found(page: Page, questions: string[], privacy: 'plain' | 'blurred' | 'encrypted'): Promise<{ id: string; text: string; score: number }[][]> {
  return page.evaluate(
    async ([questions, privacy, k]) => {
      const { client } = window as unknown as { client: import('../../wasm/npm/src/index.ts').SearchClient };
      const lists = [];
      for (const question of questions) lists.push((await client.search(question, { k, privacy })).hits);
      return lists.map((hits) => hits.map(({ id, text, score }) => ({ id, text, score })));
    },
    [questions, privacy, K] as const,
  );
}

test('blurred search finds what plain search finds', async ({ page, gateway }) => {
  await connect(page, gateway);
  const questions = squadQuestions(60).filter((_, at) => at % 4 === 0).map(({ text }) => text);
  const plain = await found(page, questions, 'plain');
  const blurred = await found(page, questions, 'blurred');
  const shares = plain.map((hits, at) => hits.filter(({ id }) => blurred[at]!.some((hit) => hit.id === id)).length / hits.length);
  const share = shares.reduce((sum, share) => sum + share, 0) / shares.length;
  expect(share).toBeGreaterThanOrEqual(0.9);
  // By the question's own vector, from codes of 8 bits.
  for (const [at, [first]] of blurred.entries()) {
    const same = plain[at]!.find(({ id }) => id === first!.id);
    if (same) expect(Math.abs(first!.score - same.score)).toBeLessThan(0.02 * Math.max(1, Math.abs(same.score)));
  }
});

test('encrypted search finds what the native client finds', async ({ page, gateway }) => {
  await connect(page, gateway);
  const questions = squadQuestions(32).filter((_, at) => at % 8 === 0).map(({ text }) => text);
  const [encrypted, plain] = [await found(page, questions, 'encrypted'), await found(page, questions, 'plain')];
  for (const [at, question] of questions.entries()) {
    const line = ['search', '--model', MODEL, '--server', server.url, '--privacy', 'encrypted', '--k', String(K), '--json', question];
    const native = JSON.parse(dpr(...line)) as { hits: { id: string; text: string; score: number }[] };
    // Both round scores to their noise, which is drawn anew: what is clearly apart has one order.
    const scores = new Map(native.hits.map(({ id, score }) => [id, score]));
    const least = Math.min(...scores.values());
    for (const { id, text, score } of encrypted[at]!) {
      // One that the native client does not find is as near as its last.
      const expected = scores.get(id) ?? least;
      expect(Math.abs(score - expected), question).toBeLessThanOrEqual(0.051 * Math.max(1, Math.abs(score)));
      const same = native.hits.find((hit) => hit.id === id);
      if (same) expect(text).toBe(same.text);
    }
    expect(encrypted[at]!.some(({ id }) => id === plain[at]![0]!.id), question).toBe(true);
  }
});

test('the traffic of an encrypted search is the same for every question, and no request holds a word of one', async ({ page, gateway }) => {
  await connect(page, gateway);
  const words = squadQuestions(50).map(({ text }) => text).join(' ').split(' ');
  const questions = Array.from({ length: 50 }, (_, at) => words.slice(at * 3, at * 4 + 1).join(' '));
  await found(page, questions.slice(0, 1), 'encrypted');
  gateway.requests.length = 0;
  await found(page, questions, 'encrypted');
  expect(gateway.requests.length).toBe(100);
  const shapes = gateway.requests.map(({ method, path, headers, rawHeaders, body }) =>
    JSON.stringify([method, path, rawHeaders.filter((_, at) => at % 2 === 0), headers['content-length'], body.length]),
  );
  expect(new Set(shapes.filter((_, at) => at % 2 === 0)).size).toBe(1);
  expect(new Set(shapes.filter((_, at) => at % 2 === 1)).size).toBe(1);
  const bodies = gateway.requests.map(({ body }) => body.toString('latin1'));
  for (const question of questions) {
    for (const text of [...bodies, ...gateway.requests.map(({ path, rawHeaders }) => `${path} ${rawHeaders.join(' ')}`)]) {
      if (question.length > 8) expect(text.includes(question)).toBe(false);
    }
  }
  // The same question twice has nothing in common but its head.
  gateway.requests.length = 0;
  await found(page, [questions[1]!, questions[1]!], 'encrypted');
  const [first, , second] = gateway.requests.map(({ body }) => body);
  const equal = first!.subarray(40).filter((byte, at) => byte === second![40 + at]).length / (first!.length - 40);
  expect(equal).toBeLessThan(0.01);
});

test('an encrypted search finds what was added since the tables were made, and not what was deleted', async ({ page, gateway }) => {
  const index = path.join(folder, 'changing');
  cpSync(path.join(folder, 'index'), index, { recursive: true });
  const changing = await startServer({ DPR_INDEX: index, more: ['--encrypted', '--allow-updates'] });
  try {
    gateway.serve(changing.url);
    await openBlank(page, gateway);
    const model = await page.evaluate(async () => {
      const client = await window.dpr.SearchClient.connect('/', { device: 'cpu' });
      Object.assign(window, { client });
      return client.model.fingerprint;
    });
    const question = 'who won super bowl 50';
    const search = async () => {
      gateway.requests.length = 0;
      const [hits] = await found(page, [question], 'encrypted');
      return { hits: hits!, paths: gateway.requests.map(({ method, path }) => `${method} ${path.split('/')[3]}`) };
    };
    const change = async (method: string, body: object) => {
      const response = await fetch(`${changing.url}/v1/passages`, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
      expect(response.status, await response.clone().text()).toBe(200);
    };
    // With the first question come the scripts and the tables.
    await search();
    const { hits: before, paths } = await search();
    expect(paths).toEqual(['POST rank', 'POST fetch']);
    await change('DELETE', { ids: [before[0]!.id] });
    const text = 'Who won Super Bowl 50? Denver won Super Bowl 50. “é”';
    await change('POST', { model, passages: [{ id: 'added', title: 'Super Bowl 50', text }] });
    const { hits: after, paths: asked } = await search();
    expect(asked).toEqual(['POST rank', 'GET delta', 'POST fetch']);
    expect(after[0]).toMatchObject({ id: 'added', text });
    expect(after.map(({ id }) => id)).not.toContain(before[0]!.id);
    expect((await search()).paths).toEqual(['POST rank', 'POST fetch']);
  } finally {
    await changing.stop();
  }
});

test('a blurred question travels as coordinates that are the same each time, and neither as words nor as its vector', async ({ page, gateway }) => {
  await connect(page, gateway);
  const question = 'did Zarquon visit Fjelbroen in 1987';
  await found(page, [question, question, `${question} again and again`], 'blurred');
  const sent = gateway.matching('/v1/private/candidates');
  expect(sent.length).toBe(3);
  expect(sent[0]!.body.equals(sent[1]!.body)).toBe(true);
  expect(new Set(sent.map(({ body }) => body.length)).size).toBe(1);
  const { y, ...rest } = JSON.parse(sent[0]!.body.toString()) as Record<string, string>;
  expect(Object.keys(rest)).toEqual(['level', 'projection', 'model']);
  expect(Buffer.from(y!, 'base64').length).toBe(64 * 2);
  for (const { body, path } of gateway.requests) {
    for (const word of ['Zarquon', 'Fjelbroen', 'visit']) expect(`${path} ${body.toString('latin1')}`.includes(word)).toBe(false);
  }
  expect(gateway.matching('/v1/search')).toEqual([]);
});

test('a mode that a server does not offer is an error, and a spoiled answer one that shows nothing', async ({ page, gateway }) => {
  const failure = (privacy: string) =>
    page.evaluate(async (privacy) => {
      const { client } = window as unknown as { client: { search(text: string, options: object): Promise<unknown> } };
      const { name, code } = await client.search('who', { privacy, k: 5 }).then(
        () => ({ name: 'none', code: '' }),
        (error: { name: string; code: string }) => error,
      );
      return `${name} ${code}`;
    }, privacy);
  await connect(page, gateway);
  await found(page, ['who'], 'encrypted');
  const spoil = (part: string) =>
    gateway.intercept((request, response) => {
      if (!request.path.endsWith(part)) return false;
      const length = request.path.endsWith('rank') ? 3120 : 999;
      response.end(Buffer.alloc(length, 7));
      return true;
    });
  for (const part of ['/rank', '/fetch']) {
    spoil(part);
    gateway.requests.length = 0;
    expect(await failure('encrypted'), part).toBe('SpoiledAnswerError spoiled_answer');
    expect(gateway.requests.map(({ path }) => path), part).toEqual(['/v1/encrypted/rank', '/v1/encrypted/fetch']);
  }
  gateway.reset();
  await openBlank(page, gateway);
  await page.evaluate(async () => Object.assign(window, { client: await window.dpr.SearchClient.connect('/', { device: 'cpu' }) }));
  gateway.requests.length = 0;
  for (const mode of ['blurred', 'encrypted']) expect(await failure(mode)).toBe('PrivacyError not_offered');
  expect(gateway.requests.filter(({ method }) => method === 'POST')).toEqual([]);
});

test('the search page says of each mode what is sent, and what was', async ({ page, gateway }) => {
  gateway.serve(server.url);
  await openDemo(page, gateway);
  await ready(page);
  await page.locator('#options summary').click();
  const mode = page.locator('#privacy');
  await expect(mode.locator('option')).toHaveText(['Plain', 'Blurred', 'Encrypted (experimental)', 'Nothing: search here', 'Buckets and decoys']);
  const cases = [
    ['blurred', /few coordinates/, /Blurred, not hidden/, /^The server saw 64 coordinates .* One request: [\d,]+ bytes were sent\.$/, 1],
    ['encrypted', /under encryption/, /Experimental/, /^The server saw 256 encrypted .* 2 requests: [\d,]+ bytes were sent, [\d,]+ bytes came back\.$/, 2],
    ['local', /not sent/, /Nothing of the question leaves/, /0 bytes were sent\.$/, 0],
    ['bucket', /fetches the buckets of passages/, /The host sees which buckets/, /^The host saw which 8 of 16 buckets of some 129 passages .* 4 of them decoys.* 8 were fetched now/, 0],
    ['plain', /Only those numbers are sent/, /Not a secret code/, /^The server saw the vector\. One request: [\d,]+ bytes were sent\.$/, 1],
  ] as const;
  for (const [name, lede, caveat, saw, requests] of cases) {
    await mode.selectOption(name);
    await expect(page.locator('.lede'), name).toContainText(lede);
    await expect(page.locator('.caveat'), name).toContainText(caveat);
    const before = gateway.requests.filter(({ method }) => method === 'POST').length;
    await ask(page, 'who won super bowl 50');
    await expect(page.locator('#privacy-saw'), name).toHaveText(saw, { timeout: 60_000 });
    await expect(page.locator('.result').first(), name).toContainText('Super Bowl');
    // The status is Ready after the downloads of a mode.
    await expect(page.locator('#state-text'), name).toContainText('Ready');
    expect(gateway.requests.filter(({ method }) => method === 'POST').length - before, name).toBe(requests);
    const time = await page.locator('#time-server').innerText();
    expect(time === '–', `${name}: ${time}`).toBe(name === 'encrypted' || name === 'local' || name === 'bucket');
    if (name === 'bucket') {
      const fetched = gateway.requests.map(({ path }) => /\/bucket\.[0-9a-f]{64}\.bin$/.exec(path)?.[0]).filter((name) => name !== undefined);
      const listed = await page.locator('#sent-list summary b').allInnerTexts();
      expect(listed.slice(0, 8).reverse().map((text) => text.replace(/.*\//, '/'))).toEqual(fetched);
    }
    const sent = gateway.requests.slice(-requests).reduce((sum, { body }) => sum + body.length, 0);
    if (requests > 0) await expect(page.locator('#privacy-saw'), name).toContainText(`${sent.toLocaleString('en')} bytes were sent`);
  }
});

test('the search page loads its reader before a private search, and asks for nothing after it', async ({ page, gateway }) => {
  gateway.serve(server.url);
  offerReader(gateway, smallReader());
  await openDemo(page, gateway);
  await ready(page);
  await page.locator('#options summary').click();
  const mode = page.locator('#privacy');
  const isOfReader = (path: string) => path.startsWith('/reader-files/');
  // Where no answers are wanted, no reader is loaded.
  await mode.selectOption('encrypted');
  const held = gateway.requests.length;
  await ask(page, 'who won super bowl 50');
  await expect(page.locator('#privacy-saw')).toHaveText(/^The server saw 256 encrypted .* 2 requests: /, { timeout: 60_000 });
  expect(gateway.requests.slice(held).filter(({ path }) => isOfReader(path))).toEqual([]);
  await page.getByLabel('Mark answers').check();
  const before = gateway.requests.length;
  await ask(page, 'who won super bowl 50');
  await expect(page.locator('.result mark')).toHaveCount(10, { timeout: 60_000 });
  const paths = gateway.requests.slice(before).map(({ path }) => path);
  const searched = paths.indexOf('/v1/encrypted/rank');
  expect(paths.slice(0, searched).filter(isOfReader)).toHaveLength(3);
  expect(paths.slice(searched)).toEqual(['/v1/encrypted/rank', '/v1/encrypted/fetch']);
});

test('what was sent in each mode is listed once, and not among what was fetched', async ({ page, gateway }) => {
  gateway.serve(server.url);
  await openDemo(page, gateway);
  await ready(page);
  await page.locator('#options summary').click();
  for (const [name, most] of [['plain', 1], ['blurred', 2], ['encrypted', 4]] as const) {
    await page.locator('#privacy').selectOption(name);
    await ask(page, 'who won super bowl 50');
    await expect(page.locator('#sent-list summary')).toHaveCount(most, { timeout: 60_000 });
    await expect(page.locator('#privacy-saw')).toContainText(/were sent/);
  }
  await page.locator('.downloads summary').click();
  const listed = await page.locator('#fetched b').allTextContents();
  const posted = new Set(gateway.requests.filter(({ method }) => method === 'POST').map(({ path }) => `GET ${path}`));
  expect(posted.size).toBe(4);
  expect(listed.filter((line) => posted.has(line))).toEqual([]);
  // Files that every visitor fetches are listed.
  expect(listed.some((line) => line.startsWith('GET /v1/encrypted/files/'))).toBe(true);
});

test('in a private mode the search page offers no filters, and those in use go', async ({ page, gateway }) => {
  gateway.serve(server.url);
  await openDemo(page, gateway);
  await ready(page);
  const only = page.locator('.result-only');
  const none = page.getByText('Passages can be filtered in plain searches only.');
  await ask(page, 'who won super bowl 50');
  await only.first().getByRole('button').first().click();
  await expect(page.locator('#filters .chip')).toHaveCount(1);
  await expect(none).toBeHidden();
  await page.locator('#options summary').click();
  const mode = page.locator('#privacy');
  for (const name of ['blurred', 'encrypted', 'local', 'bucket']) {
    await mode.selectOption(name);
    await expect(page.locator('#filters'), name).toBeHidden();
    await expect(only.filter({ visible: true }), name).toHaveCount(0);
    await expect(none, name).toBeVisible();
    await ask(page, 'who won super bowl 50');
    await expect(page.locator('#privacy-saw'), name).toHaveText(/^The (server|host) saw|0 bytes were sent/, { timeout: 60_000 });
    await expect(only, name).toHaveCount(0);
    await expect(page.locator('#error'), name).toBeHidden();
  }
  await mode.selectOption('plain');
  await expect(none).toBeHidden();
  await ask(page, 'who won super bowl 50');
  await expect(only.first()).toBeVisible();
});

test('what a server offers is asked again at the next opening where it could not be told', async ({ page, gateway }) => {
  gateway.serve(server.url);
  gateway.intercept(({ path }, response) => {
    if (path !== '/v1/private') return false;
    response.end('no JSON');
    return true;
  });
  await openDemo(page, gateway);
  await ready(page);
  const options = page.locator('#options summary');
  const modes = page.locator('#privacy option');
  await options.click();
  await expect(page.locator('#privacy-saw')).toContainText('could not be asked for');
  await expect(modes).toHaveText(['Plain']);
  gateway.intercept(() => false);
  await options.click();
  await options.click();
  await expect(modes).toHaveCount(5);
  await expect(page.locator('#privacy-saw')).toBeEmpty();
  const asked = gateway.matching('/v1/private').length;
  await options.click();
  await options.click();
  await page.waitForTimeout(300);
  expect(gateway.matching('/v1/private').length).toBe(asked);
});

test('a server that does not describe its index is searched all the same', async ({ page, gateway }) => {
  gateway.intercept(({ path }) => path === '/v1/index');
  await openDemo(page, gateway);
  await ready(page);
  await ask(page, 'who won super bowl 50');
  await expect(page.locator('.result').first()).toContainText('Super Bowl', { timeout: 60_000 });
});

test('axe finds nothing wrong with the search page in any private mode, with hits and all panels open', async ({ page, gateway }) => {
  gateway.serve(server.url);
  await openDemo(page, gateway);
  await ready(page);
  for (const name of ['blurred', 'encrypted', 'local', 'bucket']) {
    await openPanels(page);
    await page.locator('#privacy').selectOption(name);
    await ask(page, 'who won super bowl 50');
    await expect(page.locator('#privacy-saw'), name).toHaveText(/^The (server|host) saw|0 bytes were sent/, { timeout: 60_000 });
    await expect(page.locator('.result').first(), name).toContainText('Super Bowl');
    await openPanels(page);
    expect(await violations(page), name).toEqual([]);
  }
  expect(await violationsInAll(page)).toEqual([]);
});

test('a server that takes no vectors offers no plain search, and the page does not either', async ({ page, gateway }) => {
  const only = await startServer({ DPR_INDEX: path.join(folder, 'index'), more: ['--encrypted', '--private-only'] });
  try {
    gateway.serve(only.url);
    await openBlank(page, gateway);
    const modes = await page.evaluate(async () => {
      const client = await window.dpr.SearchClient.connect('/', { device: 'cpu' });
      const modes = (await client.privacyModes).map(({ mode }) => mode);
      const plain = await client.search('who').then(() => 'sent', ({ code }: { code: string }) => code);
      client.dispose();
      return [modes, plain];
    });
    expect(modes).toEqual([['encrypted'], 'plain_search_disabled']);
    await openDemo(page, gateway);
    await ready(page);
    await page.locator('#options summary').click();
    await expect(page.locator('#privacy option')).toHaveText(['Encrypted (experimental)']);
    await expect(page.locator('.lede')).toContainText('under encryption');
    // Without a look at the options, the first search is private, and vectors are not compared.
    await openDemo(page, gateway);
    gateway.requests.length = 0;
    await ask(page, 'who won super bowl 50');
    await expect(page.locator('#privacy-saw')).toHaveText(/^The server saw 256 encrypted/, { timeout: 60_000 });
    await expect(page.locator('#compare')).toBeHidden();
    expect(gateway.matching('/v1/search')).toEqual([]);
  } finally {
    await only.stop();
  }
});

test('a server that takes no vectors any more is said so, and the same question is asked privately', async ({ page, gateway }) => {
  const only = await startServer({ DPR_INDEX: path.join(folder, 'index'), more: ['--encrypted', '--private-only'] });
  try {
    gateway.serve(server.url);
    await openDemo(page, gateway);
    await ready(page);
    await expect(page.locator('#compare')).toBeVisible();
    gateway.serve(only.url);
    await ask(page, 'who won super bowl 50');
    await page.getByRole('button', { name: 'Search privately' }).click();
    await expect(page.locator('#privacy-saw')).toHaveText(/^The server saw 256 encrypted/, { timeout: 60_000 });
    await expect(page.locator('#compare')).toBeHidden();
    expect(gateway.matching('/v1/search')).toHaveLength(1);
  } finally {
    await only.stop();
  }
});

test('a private mode that was chosen stays after a reload, and is an error that sends nothing where it is not offered', async ({ page, gateway }) => {
  gateway.serve(server.url);
  await openDemo(page, gateway);
  await ready(page);
  await page.locator('#options summary').click();
  await page.locator('#privacy').selectOption('encrypted');
  await page.reload();
  await expect(page.locator('.lede')).toContainText('under encryption');
  gateway.requests.length = 0;
  await ask(page, 'who won super bowl 50');
  await expect(page.locator('#privacy-saw')).toHaveText(/^The server saw 256 encrypted/, { timeout: 60_000 });
  await expect(page.locator('#privacy')).toHaveValue('encrypted');
  expect(gateway.matching('/v1/search')).toEqual([]);
  // A server without private modes.
  gateway.serve(undefined);
  await page.reload();
  gateway.requests.length = 0;
  await ask(page, 'who won super bowl 50');
  await expect(page.locator('#error')).toContainText('does not offer the mode “Encrypted (experimental)”', { timeout: 60_000 });
  expect(gateway.requests.filter(({ method }) => method === 'POST')).toEqual([]);
  // Once it has them, the same search goes on.
  gateway.serve(server.url);
  await page.getByRole('button', { name: 'Search again' }).click();
  await expect(page.locator('#privacy-saw')).toHaveText(/^The server saw 256 encrypted/, { timeout: 60_000 });
  expect(gateway.matching('/v1/search')).toEqual([]);
});

test('a comparison sends no further vector once a private mode was chosen', async ({ page, gateway }) => {
  gateway.serve(server.url);
  await openDemo(page, gateway);
  await ready(page);
  await page.fill('#question', 'who won super bowl 50');
  await page.locator('#options summary').click();
  await expect(page.locator('#privacy option')).toHaveCount(5);
  await page.locator('#compare summary').click();
  // The first vector is not answered before a private mode was chosen.
  gateway.intercept(({ path }) => path === '/v1/search');
  await page.locator('#compare-start').click();
  await expect.poll(() => gateway.matching('/v1/search').length, { timeout: 60_000 }).toBe(1);
  await page.locator('#privacy').selectOption('encrypted');
  await expect(page.locator('#compare-state')).toHaveText('Given up.');
  await expect(page.locator('#compare-start')).toBeEnabled();
  expect(gateway.matching('/v1/search')).toHaveLength(1);
});

test('the page lists what has changed in the index as a request without a body, beside what was sent', async ({ page, gateway }) => {
  const index = path.join(folder, 'changed');
  cpSync(path.join(folder, 'index'), index, { recursive: true });
  const changing = await startServer({ DPR_INDEX: index, more: ['--encrypted', '--allow-updates'] });
  try {
    gateway.serve(changing.url);
    await openDemo(page, gateway);
    await ready(page);
    await page.locator('#options summary').click();
    await page.locator('#privacy').selectOption('encrypted');
    const saw = page.locator('#privacy-saw');
    await ask(page, 'who won super bowl 50');
    await expect(saw).toContainText('2 requests', { timeout: 60_000 });
    const id = await page.locator('.result').first().getAttribute('data-id');
    const headers = { 'content-type': 'application/json' };
    const deleted = await fetch(`${changing.url}/v1/passages`, { method: 'DELETE', headers, body: JSON.stringify({ ids: [id] }) });
    expect(deleted.status, await deleted.text()).toBe(200);
    await ask(page, 'who won super bowl 50');
    await expect(saw).toHaveText(/ 3 requests: .* bytes came back, and what has changed in the index\.$/, { timeout: 60_000 });
    const delta = page.locator('#sent-list .request', { hasText: 'GET /v1/encrypted/delta/' });
    await expect(delta.locator('dt').last()).toHaveText(/^No body: what has changed/);
    await page.locator('.downloads summary').click();
    expect((await page.locator('#fetched b').allTextContents()).filter((line) => line.includes('/delta/'))).toEqual([]);
  } finally {
    await changing.stop();
  }
});
