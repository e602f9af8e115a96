import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test, type Page } from '@playwright/test';
import type * as Local from '../../wasm/npm/src/local/index.ts';
import type * as Package from '../../wasm/npm/src/index.ts';
import { BLANK, PACKAGE } from './support/gateway.ts';
import { localHits, nativeIds } from './support/native.ts';
import { repository } from './support/paths.ts';
import { squadQuestions } from './support/squad.ts';
import { StaticHost } from './support/static-host.ts';

const K = 20;
/** Every so-manieth question of SQuAD dev, so that all articles are asked about. */
const questions = squadQuestions(10_570).filter((_, at) => at % 80 === 0);
const ENTRY = `${PACKAGE}dist/local/index.js`;
const folder = mkdtempSync(path.join(tmpdir(), 'dpr-static-'));
const site = path.join(folder, 'dpr');
let host: StaticHost;

interface Manifest {
  passages: number;
  projection: { bytes: number };
  parts: { codes: { url: string; bytes: number }; texts: { url: string; bytes: number }; packs: { url: string; bytes: number }[] }[];
}
const manifest = () => JSON.parse(readFileSync(path.join(site, 'dpr-static.json'), 'utf8')) as Manifest;

test.beforeAll(() => {
  const data = ['--model', repository('data/model', 'DPR_MODEL'), '--index', repository('data/index', 'DPR_INDEX')];
  execFileSync(repository('target/release/dpr', 'DPR_BIN'), ['index', 'export-static', ...data, '--pack-bytes', '65536', '--out', site], { stdio: 'inherit' });
});
test.afterAll(() => rmSync(folder, { recursive: true }));
test.beforeEach(async ({ page }) => {
  host = new StaticHost(site);
  await host.start();
  await page.goto(host.url + BLANK);
});
test.afterEach(() => host.stop());

/** Opens the index and searches; returns the ids found, the times, and what went wrong. */
function search(page: Page, texts: string[], retry = 0) {
  return page.evaluate(
    async ([entry, texts, k, retry]) => {
      const { LocalSearch } = (await import(entry)) as typeof Local;
      try {
        const resumed: number[] = [];
        const onProgress: Local.LocalOptions['onProgress'] = (event) => {
          if (event.status === 'download' && event.resumedAt > 0) resumed.push(event.resumedAt);
          if (event.status === 'progress') void (globalThis as { received?: (file: string, loaded: number) => void }).received?.(event.file, event.loaded);
        };
        const index = await LocalSearch.open('/dpr/dpr-static.json', { retry: { limit: retry, delay: () => 1 }, onProgress });
        const before = performance.getEntriesByType('resource').length;
        const results: Local.LocalResult[] = [];
        for (const text of texts) results.push(await index.search(text, { k }));
        const requests = performance.getEntriesByType('resource').length - before;
        index.dispose();
        return { results, requests, resumed };
      } catch (error) {
        const { name, code, message } = error as Error & { code: string };
        return { error: { name, code, message } };
      }
    },
    [ENTRY, texts, K, retry] as const,
  );
}

test('the demo corpus is searched in the page, which finds what `dpr search` finds and requests nothing', async ({ page }) => {
  const { passages, projection, parts } = manifest();
  const bytes = parts.reduce((sum, { codes, texts }) => sum + codes.bytes + texts.bytes, projection.bytes);
  console.log(`static index: ${passages} passages, ${(bytes / 1e6).toFixed(2)} MB without the encoder`);
  expect(bytes).toBeLessThanOrEqual(1_600_000);

  const texts = questions.map(({ text }) => text);
  let asked = -1;
  page.on('request', () => asked >= 0 && asked++);
  await search(page, []);
  host.requests.length = 0;
  const { results = [], requests, error } = await search(page, texts);
  expect(error).toBeUndefined();
  expect(requests).toBe(0);
  // The second opening asked for the manifest and for scripts of workers, and nothing was asked for after it.
  expect(host.requests.map(({ path }) => path).filter((path) => path.startsWith('/dpr/'))).toEqual(['/dpr/dpr-static.json']);

  const native = nativeIds(texts, K);
  const ids = results.map(({ hits }) => hits.map(({ id }) => id));
  const recall = ids.reduce((sum, found, at) => sum + found.filter((id) => native[at]!.includes(id)).length, 0) / (texts.length * K);
  const gold = (lists: string[][], k: number) => lists.filter((list, at) => list.slice(0, k).includes(questions[at]!.gold)).length / lists.length;
  const line = (lists: string[][]) => [1, 5, 20].map((k) => `top-${k} ${(gold(lists, k) * 100).toFixed(1)}%`).join(', ');
  const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!.toFixed(1);
  console.log(`local: recall@${K} ${recall.toFixed(3)}; ${line(ids)}; native f32: ${line(native)}`);
  console.log(`local: ranking ${median(results.map(({ timings }) => timings.tookMs))} ms, with texts ${median(results.map(({ timings }) => timings.searchMs))} ms`);
  expect(recall).toBeGreaterThanOrEqual(0.82);
  expect(gold(ids, 5)).toBeGreaterThanOrEqual(gold(native, 5) * 0.95);
  const [{ hits, requests: sent }] = results as [Local.LocalResult];
  expect(sent).toEqual([]);
  expect(hits.every(({ id, title, text, score }) => id && title && text && Number.isFinite(score))).toBe(true);
});

test('after one visit the page searches without a network', async ({ page }) => {
  const page1 = '<!doctype html><title>offline</title><link rel="icon" href="data:,">';
  host.pages.set('/offline.html', ['text/html', page1]);
  const [before] = (await search(page, [questions[0]!.text])).results!;
  // What a bundler would list: everything of the package that the page has loaded.
  const assets = [...new Set(host.requests.map(({ path }) => path).filter((path) => path.startsWith(PACKAGE)))];
  const worker = `
    import { keepOffline } from '${PACKAGE}dist/service-worker/index.js';
    const files = keepOffline({ server: null, assets: ${JSON.stringify(assets)}, pages: ['/offline.html'] });
    self.addEventListener('install', (event) => event.waitUntil(files.install()));
    self.addEventListener('activate', (event) => event.waitUntil(files.activate().then(() => clients.claim())));
    self.addEventListener('fetch', (event) => files.fetch(event));`;
  host.pages.set('/sw.js', ['text/javascript', worker]);
  await page.goto(`${host.url}/offline.html`);
  await page.evaluate(async () => {
    await navigator.serviceWorker.register('/sw.js', { type: 'module' });
    await navigator.serviceWorker.ready;
    if (!navigator.serviceWorker.controller) await new Promise((resolve) => navigator.serviceWorker.addEventListener('controllerchange', resolve, { once: true }));
  });
  const { url } = host;
  await host.stop();
  await page.goto(`${url}/offline.html?q=who`);
  expect(await page.title()).toBe('offline');
  const { results, error } = await search(page, [questions[0]!.text]);
  expect(error).toBeUndefined();
  expect(results![0]!.hits).toEqual(before!.hits);
  await host.start();
});

test('a corrupted file is a typed error, and a broken or aborted download is taken up', async ({ page }) => {
  const { codes, texts } = manifest().parts[0]!;
  host.spoil = (path, bytes, response) => {
    if (path !== `/dpr/${codes.url}`) return false;
    const spoiled = Buffer.from(bytes);
    spoiled[100]! ^= 1;
    response.end(spoiled);
    return true;
  };
  const corrupted = await search(page, []);
  expect(corrupted.error).toMatchObject({ name: 'IntegrityError', code: 'corrupted_file' });
  expect(corrupted.error!.message).toContain(codes.url);

  // The connection breaks in the middle, once the page has read some of the bytes that were sent.
  let unfinished: ServerResponse | undefined;
  host.spoil = (path, bytes, response) => {
    if (path !== `/dpr/${texts.url}` || unfinished) return false;
    unfinished = response;
    response.writeHead(200, { 'content-length': bytes.length });
    response.write(bytes.subarray(0, 50_000));
    return true;
  };
  let read = 0;
  await page.exposeFunction('received', (file: string, loaded: number) => {
    if (file !== path.basename(texts.url)) return;
    read ||= loaded;
    unfinished?.destroy();
  });
  host.requests.length = 0;
  const { resumed, error } = await search(page, [], 2);
  expect(error).toBeUndefined();
  expect(resumed).toHaveLength(1);
  expect(read).toBeGreaterThan(0);
  expect(resumed![0]).toBeGreaterThanOrEqual(read);
  expect(resumed![0]).toBeLessThanOrEqual(50_000);
  expect(host.requests.filter(({ path }) => path === `/dpr/${texts.url}`).map(({ range }) => range)).toEqual([undefined, `bytes=${resumed![0]}-`]);

  // The page goes away in the middle: what was downloaded stays.
  await page.evaluate(() => caches.keys().then((names) => Promise.all(names.map((name) => caches.delete(name)))));
  host.spoil = (path) => path === `/dpr/${texts.url}`;
  const aborted = await page.evaluate(async (entry) => {
    const { LocalSearch } = (await import(entry)) as typeof Local;
    const controller = new AbortController();
    let done = 0;
    const onProgress: Local.LocalOptions['onProgress'] = ({ status }) => {
      if (status === 'done' && ++done === 5) controller.abort(new Error('the user left'));
    };
    return LocalSearch.open('/dpr/dpr-static.json', { signal: controller.signal, onProgress }).then(
      () => 'opened',
      (error: Error) => error.message,
    );
  }, ENTRY);
  expect(aborted).toBe('the user left');
  host.spoil = undefined;
  host.requests.length = 0;
  expect((await search(page, [])).error).toBeUndefined();
  const again = host.requests.filter(({ path }) => path.startsWith('/dpr/')).length;
  // The manifest, and at most what was not there: five files of this index and its encoder were.
  const all = 1 + 5 + manifest().parts.length * 2;
  expect(again).toBeLessThanOrEqual(all - 4);
});

/** Searches by a client with the mode `local`; returns its results, and the requests that the browser saw meanwhile. */
function switched(page: Page, texts: string[], privacy: Package.PrivacyOptions) {
  return page.evaluate(
    async ([entry, texts, k, privacy]) => {
      const { SearchClient } = (await import(entry)) as typeof Package;
      const client = await SearchClient.connect('/dpr/dpr-static.json', { privacy, device: 'cpu' });
      const modes = await client.privacyModes;
      const before = performance.getEntriesByType('resource').length;
      const results: Package.SearchResult[] = [];
      for (const text of texts) results.push(await client.search(text, { k }));
      const refused = await client.search('who', { privacy: 'plain' }).then(() => 'sent', (error: Error) => error.name);
      const seen = performance.getEntriesByType('resource').slice(before).map(({ name }) => name);
      client.dispose();
      return { modes, results, seen, refused };
    },
    [`${PACKAGE}dist/index.js`, texts, K, privacy] as const,
  );
}

test('a client with the mode `local` finds what `LocalSearch` and `dpr search --privacy local` find, and requests nothing', async ({ page }) => {
  const texts = questions.slice(0, 40).map(({ text }) => text);
  const { results = [] } = await search(page, texts);
  const { modes, results: found, seen, refused } = await switched(page, texts, { mode: 'local' });
  expect(found.map(({ hits }) => hits)).toEqual(results.map(({ hits }) => hits));
  expect([seen, refused]).toEqual([[], 'PrivacyError']);
  expect(modes.map(({ mode, upBytes, downBytes }) => [mode, upBytes, downBytes])).toEqual([['local', 0, 0]]);
  expect(found.every(({ requests, privacy }) => requests.length === 0 && privacy.sees.startsWith('nothing'))).toBe(true);

  // One ranking; the page's encoder has weights of 8 bits, so that neighbours may change places.
  const native = localHits(texts, K, site);
  const common = found.map(({ hits }, at) => hits.filter(({ id }) => native[at]!.some((hit) => hit.id === id)).length);
  const share = common.reduce((sum, count) => sum + count, 0) / (texts.length * K);
  const apart = found.flatMap(({ hits }, at) => hits.map(({ id, score }) => Math.abs(score - (native[at]!.find((hit) => hit.id === id)?.score ?? score))));
  console.log(`local: ${(share * 100).toFixed(1)}% of ${K} passages are those of dpr search --privacy local; scores differ by ${Math.max(...apart).toFixed(3)} at most`);
  expect(share).toBeGreaterThanOrEqual(0.9);
  expect(Math.max(...apart)).toBeLessThan(0.1);
});

test('with packs the browser fetches those of the passages found, all of one length, and what the result says', async ({ page }) => {
  const texts = questions.slice(0, 40).map(({ text }) => text);
  const packs = manifest().parts.flatMap(({ packs }) => packs);
  const sizes = new Map(packs.map(({ url, bytes }) => [url, bytes]));
  const all = await switched(page, texts, { mode: 'local' });
  const { modes, results, seen } = await switched(page, texts, { mode: 'local', texts: 'packs' });
  expect(results.map(({ hits }) => hits)).toEqual(all.results.map(({ hits }) => hits));
  const told = results.flatMap(({ requests }) => requests.map(({ url }) => url));
  expect(seen.sort()).toEqual([...told].sort());
  expect(new Set(told).size).toBe(told.length);
  expect(told.every((url) => sizes.get(path.basename(url)) === 65_536)).toBe(true);
  expect(modes[0]!.onceBytes).toBeLessThan(all.modes[0]!.onceBytes);
  console.log(`packs: ${packs.length} of 65,536 bytes; ${told.length} fetched by ${texts.length} searches of ${K} passages, ${results[0]!.requests.length} by the first; ${modes[0]!.onceBytes} bytes before it in the place of ${all.modes[0]!.onceBytes}`);
});
