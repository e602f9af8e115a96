import type { Page } from '@playwright/test';
import { openPanels, violations, violationsInAll } from './support/axe.ts';
import { open as openElement } from './support/element.ts';
import { ask, expect, openDemo, ready, test } from './support/fixtures.ts';
import type { Gateway } from './support/gateway.ts';
import { offerReader, smallReader } from './support/reader.ts';

/** The demo with hits, a filter, its options and the list of what it fetched open. */
async function openAll(page: Page, gateway: Gateway): Promise<void> {
  offerReader(gateway, smallReader());
  await openDemo(page, gateway);
  await ready(page);
  await ask(page, 'who won super bowl 50');
  await expect(page.locator('.result')).toHaveCount(10);
  await page.locator('.result').first().getByRole('button', { name: /^Only / }).first().click();
  await expect(page.locator('#filters')).toBeVisible();
  await expect(page.locator('.request')).toHaveCount(2);
  await openPanels(page);
}

test('axe finds nothing wrong with the search page: before a question, with hits and all panels open, and after a failure', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  expect(await violations(page), 'before a question').toEqual([]);
  await openAll(page, gateway);
  expect(await violationsInAll(page)).toEqual([]);
  gateway.intercept(({ path }, response) => {
    if (!path.includes('/v1/search')) return false;
    response.writeHead(400, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: { code: 'bad_request', message: 'no such field' } }));
    return true;
  });
  await page.press('#question', 'Enter');
  await expect(page.locator('#error')).toBeVisible();
  expect(await violations(page), 'after a failure').toEqual([]);
});

test('axe finds nothing wrong with <dpr-search>, open and closed', async ({ page, gateway }) => {
  await openElement(page, gateway);
  expect(await violationsInAll(page), 'closed').toEqual([]);
  await page.getByRole('combobox', { name: 'Question' }).fill('who won');
  await expect(page.getByRole('option')).toHaveCount(2);
  await page.keyboard.press('ArrowDown');
  expect(await violationsInAll(page), 'open').toEqual([]);
});

test('axe finds what it is here for', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await page.evaluate(() => document.body.insertAdjacentHTML('beforeend', '<button></button><img src="data:," width="9">'));
  const found = (await violations(page)).map((line) => line.split(' ')[0]);
  expect(found).toEqual(expect.arrayContaining(['button-name', 'image-alt', 'region']));
});
