import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test, type Page } from '@playwright/test';
import { packageFile } from './support/gateway.ts';
import { repository } from './support/paths.ts';
import { StaticHost } from './support/static-host.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'dpr-offline-'));
const example = path.join(folder, 'example');

test.beforeAll(() => {
  cpSync(repository('examples/web/offline'), example, { recursive: true, filter: (file) => !/node_modules|dist$/.test(file) });
  mkdirSync(path.join(example, 'node_modules'));
  symlinkSync(path.dirname(packageFile('package.json')), path.join(example, 'node_modules/dpr-web'));
  symlinkSync(repository('wasm/npm/node_modules/vite'), path.join(example, 'node_modules/vite'));
  execFileSync(process.execPath, ['node_modules/vite/bin/vite.js', 'build', '--logLevel', 'error'], { cwd: example, stdio: 'inherit' });
  const data = ['--model', repository('data/model', 'DPR_MODEL'), '--index', repository('data/index', 'DPR_INDEX')];
  execFileSync(repository('target/release/dpr', 'DPR_BIN'), ['index', 'export-static', ...data, '--out', path.join(example, 'dist/dpr')], { stdio: 'inherit' });
});
test.afterAll(() => rmSync(folder, { recursive: true }));

/** Types a question and returns the titles that the page lists. */
async function search(page: Page, question: string): Promise<string[]> {
  await page.fill('#question', question);
  await page.press('#question', 'Enter');
  await expect(page.locator('#hits li')).toHaveCount(5, { timeout: 60_000 });
  return page.locator('#hits strong').allInnerTexts();
}

/** The built page with its index, which the host looks for in the same folder. */
function hosted(): StaticHost {
  const dist = path.join(example, 'dist');
  cpSync(path.join(dist, 'dpr'), dist, { recursive: true });
  const host = new StaticHost(dist);
  host.pages.set('/', ['text/html', readFileSync(path.join(dist, 'index.html'), 'utf8')]);
  return host;
}

test('the example offline, built as it is copied, searches without a host after one visit, and asks for nothing while it searches', async ({ page }) => {
  const host = hosted();
  await host.start();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  await page.goto(`${host.url}/`);
  await expect(page.locator('#state')).toContainText('works without a network', { timeout: 60_000 });
  await page.evaluate(() => navigator.serviceWorker.ready);
  host.requests.length = 0;
  const before = await search(page, 'who won super bowl 50');
  expect(before[0]).toBe('Super Bowl 50');
  await expect(page.locator('#state')).toContainText('the page searched by itself and sent nothing');
  expect(host.requests).toEqual([]);

  const { url } = host;
  await host.stop();
  await page.goto(`${url}/`);
  expect(await search(page, 'who won super bowl 50')).toEqual(before);
  expect(errors).toEqual([]);
});
