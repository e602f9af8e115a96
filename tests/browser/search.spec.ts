import { ask, expect, openDemo, ready, test } from './support/fixtures.ts';

test('who won super bowl 50 finds the passages about it', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  await ask(page, 'who won super bowl 50');
  const results = page.locator('.result');
  await expect(results).toHaveCount(10);
  await expect(results.first().locator('h3')).toHaveText('Super Bowl 50');
  const text = (await results.locator('.result-text').allTextContents()).slice(0, 5).join('\n');
  expect(text).toContain('Denver Broncos defeated');
  await expect(page.locator('#time-encode')).toHaveText(/\d+(\.\d)? m?s/);
  await expect(page.locator('#time-server')).toHaveText(/\d+(\.\d)? m?s/);
});

test('a question asked before the model is there is answered when it is', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ask(page, 'who won super bowl 50');
  await expect(page.locator('.result').first().locator('h3')).toHaveText('Super Bowl 50', { timeout: 60_000 });
});

test('the panel shows the very bytes that arrived', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  await ask(page, 'when did the black death reach England');
  await expect(page.locator('.result').first()).toBeVisible();
  const [search] = gateway.matching('/v1/search');
  expect(await page.locator('.request pre').first().textContent()).toBe(search!.body.toString('latin1'));
  await expect(page.locator('.request summary').first()).toContainText(`${search!.body.length.toLocaleString('en')} bytes`);
});

test('the second visit downloads no model', async ({ page, gateway, context }) => {
  await openDemo(page, gateway);
  await ready(page);
  expect(gateway.matching('/v1/model/files/').length).toBe(3);
  await page.close();
  gateway.reset();
  const again = await context.newPage();
  await openDemo(again, gateway);
  await ready(again);
  expect(gateway.matching('/v1/model/files/')).toEqual([]);
});

test('another device or weights format can be chosen, and stays after a reload', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  await page.selectOption('#dtype', 'f16');
  await expect(page.locator('#state-text')).toContainText('16-bit');
  expect(gateway.matching('f16.safetensors').length).toBe(1);
  await page.reload();
  expect(await ready(page)).toContain('16-bit');
});
