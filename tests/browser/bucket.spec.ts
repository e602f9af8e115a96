import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test, type Page } from '@playwright/test';
import type * as Package from '../../wasm/npm/src/index.ts';
import { BLANK, PACKAGE } from './support/gateway.ts';
import { bucketLines, nativeIds } from './support/native.ts';
import { repository } from './support/paths.ts';
import { squadQuestions } from './support/squad.ts';
import { StaticHost } from './support/static-host.ts';

const K = 20;
const questions = squadQuestions(10_570).filter((_, at) => at % 200 === 0);
const texts = questions.map(({ text }) => text);
const folder = mkdtempSync(path.join(tmpdir(), 'dpr-buckets-'));
const site = path.join(folder, 'dpr');
/** This device's key, for the page and for `dpr search`. */
const KEY = Buffer.from(Array.from({ length: 32 }, (_, at) => at * 7));
let host: StaticHost;

type BucketOptions = Extract<Package.PrivacyOptions, { mode: 'bucket' }>;

interface Manifest {
  passages: number;
  buckets: { least: number; centroids: { bytes: number }; files: { url: string; bytes: number; passages: number }[] };
}
const manifest = () => JSON.parse(readFileSync(path.join(site, 'dpr-static.json'), 'utf8')) as Manifest;
const number = (url: string) => manifest().buckets.files.findIndex((bucket) => url.endsWith(bucket.url));

test.beforeAll(() => {
  const data = ['--model', repository('data/model', 'DPR_MODEL'), '--index', repository('data/index', 'DPR_INDEX')];
  execFileSync(repository('target/release/dpr', 'DPR_BIN'), ['index', 'export-static', ...data, '--buckets', '--bucket-size', '50', '--out', site], { stdio: 'inherit' });
  writeFileSync(path.join(folder, 'key'), KEY);
});
test.afterAll(() => rmSync(folder, { recursive: true }));
test.beforeEach(async ({ page }) => {
  host = new StaticHost(site);
  await host.start();
  await page.goto(host.url + BLANK);
  await page.evaluate((key) => localStorage.setItem('dpr-web device key', key), KEY.toString('base64'));
});
test.afterEach(() => host.stop());

/** Connects, and searches one question after the other with a client; returns the results and what went wrong. */
function search(page: Page, asked: string[], privacy: BucketOptions) {
  return page.evaluate(
    async ([entry, texts, k, privacy]) => {
      const { SearchClient } = (await import(entry)) as typeof Package;
      let client: Package.ReadyClient | undefined;
      try {
        client = await SearchClient.connect('/dpr/dpr-static.json', { privacy, device: 'cpu', retry: 0 });
        const results: Package.SearchResult[] = [];
        for (const text of texts) results.push(await client.search(text, { k }));
        return { results, modes: await client.privacyModes };
      } catch (error) {
        const { name, code, message } = error as Error & { code: string };
        return { error: { name, code, message }, results: [], modes: [] };
      } finally {
        client?.dispose();
      }
    },
    [`${PACKAGE}dist/index.js`, asked, K, privacy] as const,
  );
}

const forget = (page: Page) => page.evaluate(() => caches.keys().then((names) => Promise.all(names.map((name) => caches.delete(name)))));
/** The buckets that the host was asked for, in their order. */
const seen = () => host.requests.splice(0).map(({ path }) => path).filter((path) => path.startsWith('/dpr/bucket.')).map(number);

test('the host sees a set of buckets that depends on the bucket of the question and on the key alone, in ascending order', async ({ page }) => {
  const privacy: BucketOptions = { mode: 'bucket', probes: 2, decoys: 4 };
  const native = bucketLines(texts, K, site, path.join(folder, 'key'), 2, 4);
  const sets: number[][] = [];
  for (const text of texts.slice(0, 12)) {
    await forget(page);
    host.requests.length = 0;
    const { results, error } = await search(page, [text, text], privacy);
    expect(error).toBeUndefined();
    const fetched = seen();
    expect(fetched).toHaveLength(6);
    expect(fetched).toEqual([...fetched].sort((a, b) => a - b));
    // The page says what the host saw, in its order, and asks for nothing twice.
    expect(results[0]!.requests.map(({ url }) => number(url))).toEqual(fetched);
    expect([results[1]!.requests, results[1]!.hits]).toEqual([[], results[0]!.hits]);
    expect(results[0]!.privacy.sees).toMatch(/^which 6 of \d+ buckets of some \d+ passages .* 4 of them decoys/);
    sets.push(fetched);
  }
  // Another day: the same. As `dpr search` with the same key, but for questions at a border: weights have 8 bits here.
  await forget(page);
  host.requests.length = 0;
  await search(page, [texts[3]!], privacy);
  expect(seen()).toEqual(sets[3]);
  const same = sets.filter((set, at) => String(set) === String(native[at]!.buckets)).length;
  console.log(`buckets: ${same} of ${sets.length} questions fetch the buckets that dpr search fetches`);
  expect(same).toBeGreaterThanOrEqual(10);
  // Decoys of another device are drawn with another key. By chance they are the same for one question in some 300.
  await page.evaluate(() => localStorage.clear());
  const isFirst = (at: number) => sets.findIndex((set) => String(set) === String(sets[at])) === at;
  const questions = sets.map((_, at) => at).filter(isFirst).slice(0, 4);
  expect(questions).toHaveLength(4);
  let different = 0;
  for (const at of questions) {
    await forget(page);
    host.requests.length = 0;
    await search(page, [texts[at]!], privacy);
    const other = seen();
    expect(other).toHaveLength(6);
    if (String(other) !== String(sets[at])) different += 1;
  }
  expect(different).toBeGreaterThanOrEqual(3);
});

test('of the best passages most are in the buckets of a question, and the page downloads a part of the index', async ({ page }) => {
  const { results, modes, error } = await search(page, texts, { mode: 'bucket', probes: 4, decoys: 4 });
  expect(error).toBeUndefined();
  const best = nativeIds(texts, K);
  const shares = results.map(({ hits }, at) => hits.filter(({ id }) => best[at]!.includes(id)).length / K);
  const recall = shares.reduce((sum, share) => sum + share, 0) / shares.length;
  const gold = results.filter(({ hits }, at) => hits.slice(0, 5).some(({ id }) => id === questions[at]!.gold)).length / results.length;
  const { buckets, passages } = manifest();
  const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!.toFixed(1);
  console.log(
    `buckets: ${buckets.files.length} of ${buckets.files[0]!.bytes} bytes, ${passages} passages; 4 and 4 decoys: recall@${K} ${recall.toFixed(3)}, top-5 ${(gold * 100).toFixed(1)}%, ` +
      `${modes[0]!.onceBytes} bytes first, ${results[0]!.requests.length * buckets.files[0]!.bytes} for the first question; kept buckets: ${median(results.filter(({ requests }) => requests.length === 0).map(({ timings }) => timings.searchMs))} ms`,
  );
  expect(recall).toBeGreaterThanOrEqual(0.6);
  expect(modes.map(({ mode, upBytes }) => [mode, upBytes])).toEqual([['bucket', 0]]);
  expect(new Set(buckets.files.map(({ bytes }) => bytes)).size).toBe(1);
});

test('a spoiled bucket is an error, an index that promises more than it holds is another, and no plainer search takes their place', async ({ page }) => {
  const privacy: BucketOptions = { mode: 'bucket', probes: 2, decoys: 4 };
  host.spoil = (path, bytes, response) => {
    if (!path.startsWith('/dpr/bucket.')) return false;
    const spoiled = Buffer.from(bytes);
    spoiled[100]! ^= 1;
    response.end(spoiled);
    return true;
  };
  host.requests.length = 0;
  expect((await search(page, [texts[0]!], privacy)).error).toMatchObject({ name: 'IntegrityError', code: 'corrupted_file' });
  expect(seen()).toHaveLength(1);
  host.spoil = (path, bytes, response) => {
    if (path !== '/dpr/dpr-static.json') return false;
    const changed = JSON.parse(bytes.toString()) as Manifest;
    changed.buckets.least = 100;
    response.end(JSON.stringify(changed));
    return true;
  };
  const { error } = await search(page, [texts[0]!], privacy);
  expect(error).toMatchObject({ name: 'ManifestError', code: 'invalid_manifest' });
  expect(error!.message).toContain('fewer than the 100 that were promised');
  host.spoil = (path, bytes, response) => {
    if (path !== '/dpr/dpr-static.json') return false;
    const { buckets: _, ...without } = JSON.parse(bytes.toString()) as Manifest;
    response.end(JSON.stringify(without));
    return true;
  };
  expect((await search(page, [texts[0]!], privacy)).error).toMatchObject({ name: 'PrivacyError', code: 'not_offered' });
  host.spoil = undefined;
  // Nothing of the whole index was asked for.
  expect(host.requests.map(({ path }) => path).filter((path) => /\/(codes|texts|pack)\./.test(path))).toEqual([]);
});

test('a search that is given up stops in the middle, and the next one goes on with the buckets that are missing', async ({ page }) => {
  let asked = 0;
  host.spoil = (path) => path.startsWith('/dpr/bucket.') && ++asked === 3;
  const [reason, first, second] = await page.evaluate(
    async ([entry, text]) => {
      const { SearchClient } = (await import(entry)) as typeof Package;
      const client = await SearchClient.connect('/dpr/dpr-static.json', { privacy: { mode: 'bucket', probes: 2, decoys: 2 }, device: 'cpu', retry: 0 });
      const controller = new AbortController();
      let seen = 0;
      client.addEventListener('request', () => ++seen === 3 && setTimeout(() => controller.abort(new Error('the user left')), 50));
      const reason = await client.search(text, { signal: controller.signal }).then(() => 'found', (error: Error) => error.message);
      const before = seen;
      const { requests } = await client.search(text);
      client.dispose();
      return [reason, before, requests.length] as const;
    },
    [`${PACKAGE}dist/index.js`, texts[1]!] as const,
  );
  expect([reason, first, second]).toEqual(['the user left', 3, 2]);
});
