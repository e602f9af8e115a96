import { readdirSync } from 'node:fs';
import type { Page } from '@playwright/test';
import type * as DprWeb from '../../wasm/npm/src/index.ts';
import { PACKAGE, packageFile, type Interceptor } from './support/gateway.ts';
import { expect, test } from './support/fixtures.ts';
import { exposeGpuDevices, gpuWorker, loseGpu } from './support/gpu-devices.ts';

const MODULE = ['wasm/cpu/dpr_wasm.js', 'wasm/cpu/dpr_wasm_bg.wasm', 'wasm/relaxed/dpr_wasm_bg.wasm'];
/** The package as one script, and as many, of which a page fetches some when it needs them. */
const PACKAGES = {
  'one script': ['dist/cdn/index.js', 'dist/cdn/worker-cpu.js', ...MODULE],
  'many scripts': ['dist/index.js', ...scripts('client', 'device', 'encoder', 'errors', 'privacy', 'types', 'weights', 'wire', 'worker', 'worker/private'), ...MODULE],
};
const PAGE = '<!doctype html><title>offline</title><link rel="icon" href="data:,">';
const worker = (assets: string[]) => `
  import { keepOffline } from '${PACKAGE}dist/service-worker/index.js';
  const files = keepOffline({ assets: ${JSON.stringify(assets)}, pages: ['/offline.html'] });
  self.addEventListener('install', (event) => event.waitUntil(files.install()));
  self.addEventListener('activate', (event) => event.waitUntil(files.activate().then(() => clients.claim())));
  self.addEventListener('fetch', (event) => files.fetch(event));`;

/** The scripts of these folders. */
function scripts(...folders: string[]): string[] {
  return folders.flatMap((folder) => readdirSync(packageFile(`dist/${folder}`)).filter((name) => name.endsWith('.js')).map((name) => `dist/${folder}/${name}`));
}

/** Answers for the page and its service worker. */
function pages(assets: string[]): Interceptor {
  const own: Record<string, [string, string]> = { '/offline.html': ['text/html', PAGE], '/sw.js': ['text/javascript', worker(assets)] };
  return ({ path }, response) => {
    const [type, text] = own[path.split('?')[0]!] ?? [];
    if (!type) return false;
    response.writeHead(200, { 'content-type': type }).end(text);
    return true;
  };
}

/** Installs the service worker and waits until it answers for the page. */
async function controlled(page: Page): Promise<void> {
  await page.evaluate(async () => {
    await navigator.serviceWorker.register('/sw.js', { type: 'module' });
    await navigator.serviceWorker.ready;
    if (!navigator.serviceWorker.controller) await new Promise((resolve) => navigator.serviceWorker.addEventListener('controllerchange', resolve, { once: true }));
  });
}

for (const [kind, names] of Object.entries(PACKAGES)) {
  const assets = names.map((name) => PACKAGE + name);
  test(`after one visit a page of ${kind} encodes questions without a network, and the service worker keeps no search`, async ({ page, gateway }) => {
    gateway.intercept(pages(assets));
    const encode = (question: string) =>
      page.evaluate(
        async ([entry, question]) => {
          const { QuestionEncoder } = (await import(entry!)) as typeof DprWeb;
          const encoder = await QuestionEncoder.load('/v1/model', { device: 'cpu', retry: 0 });
          const vector = [...(await encoder.encode(question!))];
          encoder.dispose();
          return vector;
        },
        [assets[0], question],
      );
    await page.goto(`${gateway.url}/offline.html`);
    await controlled(page);
    const found = await page.evaluate(async (entry) => {
      const { SearchClient } = (await import(entry!)) as typeof DprWeb;
      const client = await SearchClient.connect('/', { device: 'cpu' });
      const { hits } = await client.search('who won super bowl 50');
      client.dispose();
      return hits.length;
    }, assets[0]);
    expect(found).toBe(10);
    const before = await encode('who won super bowl 50');

    // Nobody answers any more.
    gateway.intercept((_, response) => {
      response.destroy();
      return true;
    });
    await page.goto(`${gateway.url}/offline.html?q=who`);
    expect(await page.title()).toBe('offline');
    expect(await encode('who won super bowl 50')).toEqual(before);
    const kept = await page.evaluate(async () => {
      const caches = await Promise.all((await window.caches.keys()).map((name) => window.caches.open(name)));
      return (await Promise.all(caches.map((cache) => cache.keys()))).flat().map(({ url }) => url);
    });
    const others = kept.map((url) => new URL(url)).filter(({ pathname }) => !assets.includes(pathname));
    expect(others.filter(({ pathname, search }) => /search|who/.test(pathname + search))).toEqual([]);
  });
}

test('a GPU lost without a network: the CPU answers, from what the service worker has kept', async ({ page, gateway }) => {
  test.setTimeout(240_000);
  const assets = PACKAGES['many scripts'].map((name) => PACKAGE + name);
  const own = pages(assets);
  gateway.intercept((request, response, count) => own(request, response, count) || exposeGpuDevices(request, response, count));
  await page.goto(`${gateway.url}/offline.html`);
  await controlled(page);
  const gpu = gpuWorker(page);
  const before = await page.evaluate(async (entry) => {
    const { QuestionEncoder } = (await import(entry!)) as typeof DprWeb;
    const encoder = await QuestionEncoder.load('/v1/model', { device: 'webgpu', dtype: 'q8', retry: 0 });
    Object.assign(window, { encoder });
    return { device: encoder.device, vector: [...(await encoder.encode('who won super bowl 50'))] };
  }, assets[0]);
  expect(before.device).toBe('webgpu');
  gateway.intercept((_, response) => {
    response.destroy();
    return true;
  });
  await loseGpu(gpu);
  const after = await page.evaluate(async () => {
    const { encoder } = window as unknown as { encoder: DprWeb.QuestionEncoder };
    const vector = [...(await encoder.encode('who won super bowl 50'))];
    return { device: encoder.device, vector };
  });
  expect(after.device).toBe('cpu');
  const dot = (a: number[], b: number[]) => a.reduce((sum, value, at) => sum + value * b[at]!, 0);
  const [one, other] = [before.vector, after.vector];
  expect(dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other))).toBeGreaterThan(0.999);
});
