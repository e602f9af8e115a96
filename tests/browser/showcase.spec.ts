import type { ServerResponse } from 'node:http';
import type { Page } from '@playwright/test';
import { ask, expect, openDemo, ready, test } from './support/fixtures.ts';
import type { Gateway } from './support/gateway.ts';

const QUESTION = 'who won super bowl 50';

/** Answers searches with one passage that has metadata. */
function answerWithMetadata(gateway: Gateway): void {
  const metadata = { year: 1999, place: 'Egypt' };
  const hit = { id: '7', score: 0.5, title: 'Cairo', text: 'Cairo is the capital of Egypt.', metadata };
  gateway.intercept(({ path }, response) => {
    if (!path.includes('/v1/search')) return false;
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ hits: [hit], took_ms: 1 }));
    return true;
  });
}

/** The bodies of the searches so far. */
const searches = (gateway: Gateway) =>
  gateway.matching('/v1/search').map(({ body }) => JSON.parse(body.toString()) as { filter?: unknown });

async function open(page: Page, tool: 'options' | 'compare'): Promise<void> {
  await page.locator(`#${tool} summary`).click();
}

test('the policy of the page allows no inline style or script, and the page breaks it nowhere', async ({ page, gateway }) => {
  await page.addInitScript(() => {
    const broken: string[] = [];
    Object.assign(window, { broken });
    document.addEventListener('securitypolicyviolation', ({ violatedDirective }) => broken.push(violatedDirective));
  });
  const answer = await page.goto(`${gateway.url}/?device=cpu`);
  const policy = answer!.headers()['content-security-policy'];
  expect(policy).toContain("style-src 'self';");
  expect(policy).not.toContain('unsafe-inline');
  await ready(page);
  await ask(page, QUESTION);
  await expect(page.locator('.result')).toHaveCount(10);
  // A style of a script still counts: the bar of the best passage is full.
  const share = await page.locator('.result-score i').first().evaluate((bar) => getComputedStyle(bar).getPropertyValue('--share'));
  expect(share).toBe('100%');
  expect(await page.evaluate(() => (window as unknown as { broken: string[] }).broken)).toEqual([]);
  // The same for a style that somebody slipped in: it does nothing, and it is told.
  await page.evaluate(() => document.body.insertAdjacentHTML('beforeend', '<p id="slipped" style="position: fixed">x</p>'));
  expect(await page.locator('#slipped').evaluate((element) => getComputedStyle(element).position)).toBe('static');
  expect(await page.evaluate(() => (window as unknown as { broken: string[] }).broken)).toEqual(['style-src-attr']);
});

test('two tabs of the search page have one download and one engine', async ({ page, context, browser, gateway }) => {
  const other = await context.newPage();
  for (const tab of [page, other]) {
    await openDemo(tab, gateway);
    await ready(tab);
    await ask(tab, QUESTION);
    await expect(tab.locator('.result').first().locator('h3')).toHaveText('Super Bowl 50');
  }
  const session = await browser.newBrowserCDPSession();
  const { targetInfos } = await session.send('Target.getTargets');
  expect(targetInfos.map(({ type }) => type).filter((type) => type.endsWith('worker'))).toEqual(['shared_worker']);
  expect(gateway.matching('/v1/model/files/').length).toBe(3);
  expect(gateway.matching('dpr_wasm_bg').length).toBe(1);
  // The tab that came first takes nothing with it.
  await page.close();
  await ask(other, 'what is the capital of Egypt');
  await expect(other.locator('.request')).toHaveCount(2);
  await expect(other.locator('#results')).toHaveAttribute('aria-busy', 'false');
  expect(gateway.matching('dpr_wasm_bg').length).toBe(1);
});

test('passages of one title alone: the filter is a chip, is sent, and is removed by a click', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  await ask(page, 'why is pure oxygen dangerous for divers');
  const titles = () => page.locator('.result h3').allTextContents();
  await expect(page.locator('.result')).toHaveCount(10);
  const [first] = await titles();
  await page.locator('.result').first().getByRole('button', { name: `Only ${first}` }).click();
  const chip = page.getByRole('button', { name: `Remove the filter ${first}` });
  await expect(chip).toBeFocused();
  await expect.poll(async () => new Set(await titles())).toEqual(new Set([first]));
  expect(searches(gateway).at(-1)!.filter).toEqual({ titles: [first] });
  await expect(page.locator('.filters-note')).toBeVisible();
  await chip.press('Enter');
  await expect(page.locator('#filters')).toBeHidden();
  await expect(page.locator('#question')).toBeFocused();
  await expect.poll(() => searches(gateway).at(-1)!.filter).toBeUndefined();
});

test('metadata of a passage are filters, and several of them hold together', async ({ page, gateway }) => {
  answerWithMetadata(gateway);
  await openDemo(page, gateway);
  await ready(page);
  await ask(page, 'what is the capital of Egypt');
  const only = (name: string) => page.locator('.result').getByRole('button', { name });
  await only('Only year: 1999').click();
  await expect.poll(() => searches(gateway).at(-1)!.filter).toEqual({ metadata: { field: 'year', eq: 1999 } });
  await only('Only place: Egypt').click();
  await only('Only Cairo').click();
  await expect.poll(() => searches(gateway).at(-1)!.filter).toEqual({
    titles: ['Cairo'],
    metadata: { and: [{ field: 'year', eq: 1999 }, { field: 'place', eq: 'Egypt' }] },
  });
  await expect(only('Only year: 1999')).toHaveCount(0);
  await expect(page.locator('#filters .chip')).toHaveCount(3);
});

test('typing searches only when it is switched on, and the page then no longer says that it does not', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  await page.locator('#question').pressSequentially('who won', { delay: 20 });
  await expect(page.locator('#not-typed')).toBeVisible();
  await page.waitForTimeout(600);
  expect(searches(gateway)).toHaveLength(0);

  await open(page, 'options');
  await page.getByLabel('Search while typing').check();
  await expect(page.locator('#not-typed')).toBeHidden();
  // Keys without a pause between them.
  await page.locator('#question').evaluate((input: HTMLInputElement) => {
    for (const key of ' super bowl 50') {
      input.value += key;
      input.dispatchEvent(new Event('input'));
    }
  });
  await expect(page.locator('.result').first().locator('h3')).toHaveText('Super Bowl 50');
  expect(searches(gateway)).toHaveLength(1);
  await page.reload();
  await expect(page.locator('#typing')).toBeChecked();
});

test('an answer to what was typed is not shown once an example was picked', async ({ page, gateway }) => {
  const answer = (response: ServerResponse, title: string) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ hits: [{ id: title, score: 0.5, title, text: title }], took_ms: 1 }));
  };
  let typed: ServerResponse | undefined;
  gateway.intercept(({ path }, response) => {
    if (!path.includes('/v1/search')) return false;
    if (typed) answer(response, 'Example');
    else typed = response;
    return true;
  });
  await openDemo(page, gateway);
  await ready(page);
  await open(page, 'options');
  await page.getByLabel('Search while typing').check();
  await page.fill('#question', QUESTION);
  await expect.poll(() => typed !== undefined).toBe(true);
  await page.locator('#examples button').last().click();
  const title = page.locator('.result h3');
  await expect(title).toHaveText('Example');
  if (!typed!.destroyed) answer(typed!, 'Typed');
  await page.waitForTimeout(300);
  await expect(title).toHaveText('Example');
  await expect(page.locator('.outcome')).toHaveText(['answered', 'given up']);
  await expect(page.locator('#results')).toHaveAttribute('aria-busy', 'false');
});

test('Escape gives up a search and leaves the question, and empties it afterwards', async ({ page, gateway }) => {
  let asked = 0;
  gateway.intercept(({ path }) => path.includes('/v1/search') && (asked += 1) > 0);
  await openDemo(page, gateway);
  await ready(page);
  await ask(page, QUESTION);
  await expect.poll(() => asked).toBe(1);
  await expect(page.locator('#results')).toHaveAttribute('aria-busy', 'true');
  await page.keyboard.press('Escape');
  await expect(page.locator('#results')).toHaveAttribute('aria-busy', 'false');
  await expect(page.locator('#question')).toHaveValue(QUESTION);
  await expect(page.locator('.outcome').first()).toHaveText('given up');
  await page.keyboard.press('Escape');
  await expect(page.locator('#question')).toHaveValue('');
});

test('screen readers hear what was found, also when it is the same again; every control has a name', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  await page.evaluate(() => {
    const said: string[] = [];
    Object.assign(window, { said });
    const region = document.getElementById('announce')!;
    new MutationObserver(() => said.push(region.textContent!)).observe(region, { childList: true, characterData: true, subtree: true });
  });
  const said = () => page.evaluate(() => (window as unknown as { said: string[] }).said.map((text) => text.trim()));
  await ask(page, QUESTION);
  await expect.poll(said).toEqual(['10 passages found. The first: Super Bowl 50']);
  await page.press('#question', 'Enter');
  await expect.poll(said).toHaveLength(2);
  await expect(page.locator('#announce')).toHaveAttribute('role', 'status');
  for (const tool of ['options', 'compare'] as const) await open(page, tool);
  for (const control of await page.locator('button:visible, input:visible, select:visible, summary:visible').all()) {
    const name = await control.evaluate((element) => {
      const labels = [...((element as HTMLInputElement).labels ?? [])].map((label) => label.textContent).join(' ');
      return (element.getAttribute('aria-label') ?? `${labels} ${element.textContent}`).trim();
    });
    expect(name, await control.evaluate((element) => element.outerHTML)).not.toBe('');
  }
});

test('colours and direction are chosen in the page, and stay', async ({ page, gateway }) => {
  await page.emulateMedia({ colorScheme: 'light' });
  await openDemo(page, gateway);
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await open(page, 'options');
  await page.getByLabel('Colours').selectOption('dark');
  const dark = await background();
  expect(dark).not.toBe(light);
  await page.getByLabel('Layout').selectOption('rtl');
  await page.reload();
  expect(await background()).toBe(dark);
  await page.emulateMedia({ colorScheme: 'dark' });
  await open(page, 'options');
  await page.getByLabel('Colours').selectOption('light');
  expect(await background()).toBe(light);

  // From right to left the panel is on the left, and nothing leaves the screen.
  await page.setViewportSize({ width: 1200, height: 800 });
  const left = async (selector: string) => (await page.locator(selector).boundingBox())!.x;
  expect(await left('.sent')).toBeLessThan(await left('.ask'));
  await page.setViewportSize({ width: 360, height: 740 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
});

test('encoders are compared side by side: bytes, times, and passages in common', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  await open(page, 'compare');
  await page.locator('#compare-start').click();
  await expect(page.locator('#compare-state')).toHaveText('Type a question first.');
  await page.fill('#question', QUESTION);
  await page.locator('#compare-start').click();
  // WebGPU is software here.
  await expect(page.locator('#compare-state')).toHaveText(
    /^The CPU in 4 bits: (?:[6-9]|10) of 10 passages in common with the CPU in 8 bits, in (?:the same|another) order\. WebGPU: (?:9|10) of 10 passages in common with the CPU in 8 bits, in (?:the same|another) order\.$/,
    { timeout: 100_000 },
  );
  const row = (name: string) => page.locator('#compare-rows tr', { hasText: name }).locator('td').allTextContents();
  for (const name of ['Ready after', 'Encode', 'Request']) for (const cell of await row(name)) expect(cell).toMatch(/^\d[\d.,]* m?s$/);
  expect(await row('Best passage')).toEqual(Array(3).fill('Super Bowl 50'));
  const [eight, four, gpu] = (await row('Weights')).map(Number.parseFloat);
  expect([gpu, four! < 0.6 * eight!]).toEqual([eight, true]);
  // All searches stand in the list of what left.
  await expect(page.locator('.request')).toHaveCount(3);
  await expect(page.locator('#compare-start')).toBeEnabled();
});

test('everything that was fetched is listed with its bytes, failed requests and the worker\'s too', async ({ page, gateway }) => {
  gateway.intercept(({ path }, response) => {
    if (path !== '/v1/index') return false;
    response.writeHead(503).end('{}');
    return true;
  });
  await openDemo(page, gateway);
  await ready(page);
  await ask(page, QUESTION);
  await expect(page.locator('.result')).toHaveCount(10);
  await page.locator('.downloads summary').click();
  const line = (text: string) => page.locator('#fetched li', { hasText: text });
  await expect(line('GET /v1/index')).toContainText('failed');
  await expect(line('.q8.safetensors')).toHaveText(/\d[\d,]{8,} bytes$/);
  await expect(line('dpr_wasm_bg')).toHaveText(/\d[\d,]{5,} bytes$/);
  const listed = await page.locator('#fetched b').allTextContents();
  const fetched = gateway.requests.filter(({ path }) => !path.includes('/v1/search')).map(({ path }) => path.split('?')[0]!);
  expect(fetched.filter((path) => !listed.includes(`GET ${path}`))).toEqual([]);
});

test('a model that the operator changed is told, and the same search answers with it', async ({ page, gateway }) => {
  const other = 'ab'.repeat(32);
  await openDemo(page, gateway);
  await ready(page);
  gateway.intercept((request, response) => {
    const answer = (status: number, body: object) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    if (request.path.endsWith('/v1/model')) {
      void fetch(new URL('/v1/model', process.env.DPR_URL)).then(async (truth) => {
        answer(200, { ...((await truth.json()) as object), fingerprint: other, name: 'another-model' });
      });
      return true;
    }
    if (!request.path.endsWith('/v1/search')) return false;
    const { model } = JSON.parse(request.body.toString()) as { model: string };
    if (model === other) answer(200, { hits: [], took_ms: 1 });
    else answer(409, { error: { code: 'wrong_model', message: 'another model', fix: 'load it' } });
    return true;
  });
  await ask(page, QUESTION);
  await expect(page.locator('#notice')).toContainText('another-model');
  await expect(page.locator('#model-name')).toHaveText('Model: another-model.');
  await expect(page.locator('#empty')).toHaveText('No passage was found.');
  await expect(page.locator('#announce')).toHaveText('No passage was found.');
  await expect(page.locator('#error')).toBeHidden();
  await expect(page.locator('.request .outcome')).toHaveText(['answered', 'failed']);
});
