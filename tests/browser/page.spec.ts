import { ask, expect, hold, openDemo, ready, test } from './support/fixtures.ts';

test('at 360 pixels nothing is wider than the screen', async ({ page, gateway }) => {
  await page.setViewportSize({ width: 360, height: 740 });
  await openDemo(page, gateway);
  await ready(page);
  await ask(page, 'who won super bowl 50');
  await expect(page.locator('.result')).toHaveCount(10);
  for (const details of await page.locator('details').all()) await details.evaluate((element) => element.setAttribute('open', ''));
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  for (const part of ['#question', '.primary', '#device', '#dtype', '.timings', '.result >> nth=0', '.request pre']) {
    const box = await page.locator(part).boundingBox();
    expect(box!.x, part).toBeGreaterThanOrEqual(0);
    expect(box!.x + box!.width, part).toBeLessThanOrEqual(360);
  }
  // From the results to what was sent, without scrolling past them all.
  await page.locator('#sent-link').click();
  await expect(page.locator('#sent-heading')).toBeInViewport();
});

test('the keyboard alone is enough', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  await page.locator('h1').click();
  await page.keyboard.press('/');
  await expect(page.locator('#question')).toBeFocused();
  await page.keyboard.type('who won super bowl 50');
  await page.keyboard.press('Enter');
  const results = page.locator('.result');
  await expect(results).toHaveCount(10);

  await page.keyboard.press('ArrowDown');
  const title = (position: number) => results.nth(position).locator('h3 button');
  await expect(title(0)).toBeFocused();
  await page.keyboard.press('ArrowDown');
  await expect(title(1)).toBeFocused();
  const folded = await results.nth(1).locator('.result-text').boundingBox();
  await page.keyboard.press('Enter');
  await expect(title(1)).toHaveAttribute('aria-expanded', 'true');
  const open = await results.nth(1).locator('.result-text').boundingBox();
  expect(open!.height).toBeGreaterThan(folded!.height);
  // From another button of a passage, its neighbours.
  const only = (position: number) => results.nth(position).getByRole('button', { name: /^Only / }).first();
  await only(4).focus();
  await page.keyboard.press('ArrowDown');
  await expect(title(5)).toBeFocused();
  await only(4).focus();
  await page.keyboard.press('ArrowUp');
  await expect(title(3)).toBeFocused();
  await page.keyboard.press('End');
  await expect(title(9)).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(page.locator('#question')).toBeFocused();
  // A slash in a question is a slash.
  await page.keyboard.press('End');
  await page.keyboard.type(' 24/10');
  await expect(page.locator('#question')).toHaveValue('who won super bowl 50 24/10');
});

test('the page is there before the model, and its progress is told to screen readers', async ({ page, gateway }) => {
  const release = await hold(page, '**/v1/model');
  await openDemo(page, gateway);
  await expect(page.locator('#question')).toBeEditable();
  await expect(page.locator('#examples button').first()).toBeVisible();
  await expect(page.locator('#state')).toHaveAttribute('role', 'status');
  await page.locator('#examples button').first().click();
  await expect(page.locator('#state-text')).toContainText('Your question is searched as soon as it is here');
  release();
  await expect(page.locator('.result')).toHaveCount(10, { timeout: 60_000 });
  await expect(page.locator('#found-heading')).toHaveText('10 passages found');
});

test('Escape while the model loads cancels the waiting question, and its notice goes', async ({ page, gateway }) => {
  const release = await hold(page, '**/v1/model');
  await openDemo(page, gateway);
  const state = page.locator('#state-text');
  await ask(page, 'who won super bowl 50');
  await expect(state).toContainText('Your question is searched as soon as it is here');
  await page.press('#question', 'Escape');
  await expect(state).toHaveText('Loading the question encoder…');
  release();
  await ready(page);
  expect(gateway.matching('/v1/search')).toEqual([]);
  await expect(page.locator('.result')).toHaveCount(0);
});

test('a question that is longer than the encoder reads is searched, and the page says that only its beginning counts', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  const long = 'who won super bowl 50 '.repeat(200).trim();
  await ask(page, long);
  const notice = page.locator('#long');
  await expect(notice).toContainText('Only the beginning of this question counts');
  await expect(page.locator('.result')).toHaveCount(10);
  await expect(page.locator('#question')).toHaveValue(long);
  await ask(page, 'who won super bowl 50');
  await expect(page.locator('.request')).toHaveCount(2);
  await expect(notice).toBeHidden();
});

test('passages have the direction of their script, numbers the form of the browser\'s language', async ({ browser, gateway }) => {
  gateway.intercept(({ path }, response) => {
    if (!path.includes('/v1/search')) return false;
    const hits = [
      { id: '1', score: 0.5, title: 'القاهرة', text: 'القاهرة عاصمة جمهورية مصر العربية' },
      { id: '2', score: 0.25, title: 'Cairo', text: 'Cairo is the capital of Egypt' },
    ];
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ hits, took_ms: 1.5 }));
    return true;
  });
  const context = await browser.newContext({ locale: 'de-DE' });
  const page = await context.newPage();
  await openDemo(page, gateway);
  await ready(page);
  await ask(page, 'ما هي عاصمة مصر');
  await expect(page.locator('.result')).toHaveCount(2);
  const directions = (selector: string) => page.locator(selector).evaluateAll((all) => all.map((one) => getComputedStyle(one).direction));
  expect(await directions('.result-text')).toEqual(['rtl', 'ltr']);
  expect(await directions('.result h3 button')).toEqual(['rtl', 'ltr']);
  expect(await directions('#question')).toEqual(['rtl']);
  await expect(page.locator('.result-score').first()).toHaveText('0,500');
  await expect(page.locator('#time-server')).toHaveText('1,5 ms');
  await page.locator('#options summary').click();
  for (const target of ['.result h3 button >> nth=0', '.result-only button >> nth=0', '.downloads summary', '#shortcut', '#compare summary']) {
    const { height } = (await page.locator(target).boundingBox())!;
    expect(height, target).toBeGreaterThanOrEqual(24);
  }
  await context.close();
});

for (const scheme of ['light', 'dark'] as const) {
  test(`text can be read in the ${scheme} scheme`, async ({ page, gateway }) => {
    await page.emulateMedia({ colorScheme: scheme });
    await openDemo(page, gateway);
    await ready(page);
    await ask(page, 'who won super bowl 50');
    await expect(page.locator('.result')).toHaveCount(10);
    for (const selector of ['.lede', '.state', '.result-text >> nth=0', '.result-score >> nth=0', '.primary', '.caveat', '.request dt >> nth=0']) {
      expect(await page.locator(selector).evaluate(contrast), selector).toBeGreaterThanOrEqual(4.5);
    }
  });
}

/** WCAG contrast of an element's text and the nearest background behind it. */
function contrast(element: Element): number {
  const luminance = (color: string) => {
    const [r, g, b] = color.match(/[\d.]+/g)!.map((part) => {
      const value = Number(part) / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
  };
  let behind: Element | null = element;
  while (behind && /, 0\)$|transparent/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
  const [text, back] = [luminance(getComputedStyle(element).color), luminance(getComputedStyle(behind ?? document.body).backgroundColor)];
  return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
}

test('the page makes no errors in the console and keeps the server\'s content security policy', async ({ page, gateway }) => {
  const complaints: string[] = [];
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(error.message));
  await openDemo(page, gateway);
  await ready(page);
  await ask(page, 'who won super bowl 50');
  await expect(page.locator('.result')).toHaveCount(10);
  expect(complaints).toEqual([]);
});

test('a page that was built before the WebGPU module says when it is there, and takes it', async ({ page, gateway }) => {
  await page.route(`${gateway.url}/?*`, async (route) => {
    const answer = await route.fetch();
    const body = (await answer.text()).replace('</title>', '</title><meta name="dpr-webgpu" content="building">');
    await route.fulfill({ response: answer, body });
  });
  let state = 'building';
  gateway.intercept(({ path }, response) => {
    if (path !== '/modules.json') return false;
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ webgpu: state }));
    return true;
  });
  await openDemo(page, gateway, '?device=webgpu');
  expect(await ready(page)).toContain('the CPU');
  const arrival = page.locator('#arrival');
  await expect(arrival).toContainText('still being built');
  state = 'ready';
  await expect(arrival).toContainText('is here');
  await page.unroute(`${gateway.url}/?*`);
  await arrival.getByRole('button').click();
  await expect(arrival).toBeHidden();
  expect(await ready(page, 120_000)).toContain('WebGPU');
});
