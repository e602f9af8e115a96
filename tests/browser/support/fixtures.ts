import { test as base, expect, type Page } from '@playwright/test';
import type * as DprWeb from '../../../wasm/npm/src/index.ts';
import { BLANK, Gateway, PACKAGE } from './gateway.ts';

interface Fixtures {
  /** The server as the browser sees it, fresh for each test. */
  gateway: Gateway;
  /** A blank page with the package loaded as `dpr`. */
  blank: Page;
}
interface WorkerFixtures {
  startedGateway: Gateway;
}

declare global {
  interface Window {
    dpr: typeof DprWeb;
  }
}

export const test = base.extend<Fixtures, WorkerFixtures>({
  startedGateway: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's names.
    async ({}, use) => {
      const gateway = new Gateway();
      await gateway.start();
      await use(gateway);
      await gateway.stop();
    },
    { scope: 'worker' },
  ],
  gateway: async ({ startedGateway }, use) => {
    startedGateway.reset();
    await use(startedGateway);
  },
  blank: async ({ page, gateway }, use) => {
    await openBlank(page, gateway);
    await use(page);
  },
});

/** Opens the blank page and loads the package in it, as a page without a bundler does. */
export async function openBlank(page: Page, gateway: Gateway): Promise<void> {
  await page.goto(gateway.url + BLANK);
  await page.evaluate(async (entry) => {
    window.dpr = await import(entry);
  }, `${PACKAGE}dist/index.js`);
}

/** Opens the search page. */
export async function openDemo(page: Page, gateway: Gateway, query = '?device=cpu'): Promise<void> {
  await page.goto(`${gateway.url}/${query}`);
}

/** Waits until questions can be encoded, and returns what the page says about it. */
export async function ready(page: Page, timeout = 60_000): Promise<string> {
  await expect(page.locator('#state-text')).toContainText('Ready', { timeout });
  return page.locator('#state-text').innerText();
}

/** Types a question and sends it off. */
export async function ask(page: Page, question: string): Promise<void> {
  await page.fill('#question', question);
  await page.press('#question', 'Enter');
}

/** Holds back what the page fetches from matching addresses until the function that it returns is called. */
export async function hold(page: Page, pattern: string): Promise<() => void> {
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await page.route(pattern, async (route) => {
    await held;
    await route.continue();
  });
  return release;
}

export { expect };
