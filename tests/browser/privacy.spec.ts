import type { Page } from '@playwright/test';
import { ask, expect, openBlank, openDemo, ready, test } from './support/fixtures.ts';
import { BLANK, PACKAGE, plainHost, type Recorded } from './support/gateway.ts';
import { offerReader, smallReader } from './support/reader.ts';

// Words that nothing else on the page or in the protocol says, beside the question of the README.
const QUESTIONS = ['who won super bowl 50', 'did Zarquon Fjällräven visit Łódź in 1987'];

for (const device of ['cpu', 'webgpu']) {
  test(`no request holds a question or a word of it (${device})`, async ({ page, gateway }) => {
    test.setTimeout(240_000);
    const elsewhere = watch(page, gateway.url);
    await openDemo(page, gateway, `?device=${device}`);
    await ready(page, 120_000);
    for (const [position, question] of QUESTIONS.entries()) {
      // Typed key by key, as a person does: suggestions or autosave would show.
      await page.fill('#question', '');
      await page.locator('#question').pressSequentially(question, { delay: 5 });
      await page.press('#question', 'Enter');
      await expect(page.locator('.request')).toHaveCount(position + 1, { timeout: 90_000 });
    }
    // A beacon goes when the page does.
    await page.goto('about:blank');

    expect(elsewhere, 'requests to other origins, and sockets').toEqual([]);
    const searches = gateway.matching('/v1/search');
    expect(searches.length).toBe(QUESTIONS.length);
    for (const request of gateway.requests) {
      expect(leaks(request, QUESTIONS)).toEqual([]);
      if (!searches.includes(request)) expect(request.body.length, `${request.path} has a body`).toBe(0);
    }
    const { fingerprint, dim } = (await (await fetch(`${gateway.url}/v1/model`)).json()) as { fingerprint: string; dim: number };
    for (const { body, headers, method } of searches) {
      expect(method).toBe('POST');
      const sent = JSON.parse(body.toString()) as Record<string, unknown>;
      expect(Object.keys(sent).sort()).toEqual(['k', 'model', 'vector']);
      expect(sent.model).toBe(fingerprint);
      expect(sent.k).toBe(10);
      expect(Buffer.from(sent.vector as string, 'base64').length).toBe(dim * 4);
      expect(Buffer.from(sent.vector as string, 'base64').toString('base64')).toBe(sent.vector);
      expect(headers.cookie).toBeUndefined();
      expect(headers.referer).toBeUndefined();
    }
  });
}

test('no request holds a question or an answer, or a passage that was read, with re-ranking and answers on', async ({ page, gateway }) => {
  const elsewhere = watch(page, gateway.url);
  offerReader(gateway, smallReader());
  await openBlank(page, gateway);
  const found = await page.evaluate(async (questions) => {
    const client = await window.dpr.SearchClient.connect('/', { device: 'cpu' });
    const texts: string[] = [];
    for (const question of questions) {
      const { answers } = await client.answer(question, { depth: 5, count: 5 });
      const { hits } = await client.search(question, { k: 5, rerank: { depth: 10 } });
      texts.push(...answers.map(({ text }) => text), ...hits.map(({ text }) => text));
    }
    client.dispose();
    return texts;
  }, QUESTIONS);
  await page.goto('about:blank');
  expect(elsewhere, 'requests to other origins, and sockets').toEqual([]);
  expect(gateway.matching('/reader-files/').length, 'config, tokenizer and weights').toBe(3);
  const searches = gateway.matching('/v1/search');
  expect(searches.length).toBe(2 * QUESTIONS.length);
  // Shorter spans are words such as "the", which addresses and headers hold by chance.
  const spans = found.filter((text) => text.length >= 10);
  expect(spans.length, 'ten passages, and some of the answers').toBeGreaterThan(10);
  for (const request of gateway.requests) {
    expect(leaks(request, QUESTIONS)).toEqual([]);
    expect(spans.filter((text) => holdsWhole(request, text))).toEqual([]);
    if (!searches.includes(request)) expect(request.body.length, `${request.path} has a body`).toBe(0);
  }
  for (const { body } of searches) {
    const sent = JSON.parse(body.toString()) as Record<string, unknown>;
    expect(Object.keys(sent).sort()).toEqual(['k', 'model', 'vector']);
  }
});

for (const device of ['cpu', 'webgpu']) {
  test(`a question that is in the page's address before it loads is passed on with no request (${device})`, async ({ page, gateway }) => {
    test.setTimeout(240_000);
    plainHost(gateway);
    await openDemo(page, gateway, `?device=${device}&q=${encodeURIComponent(QUESTIONS[1]!)}`);
    await ready(page, 120_000);
    await ask(page, QUESTIONS[0]!);
    await expect(page.locator('.request')).toHaveCount(1, { timeout: 90_000 });
    const [itself, ...others] = gateway.requests;
    expect(leaks(itself!, QUESTIONS)).not.toEqual([]);
    expect(others.length).toBeGreaterThan(8);
    for (const request of others) {
      expect(leaks(request, QUESTIONS)).toEqual([]);
      expect(request.headers.referer ?? '', request.path).not.toContain('device=');
    }
  });
}

test('the package passes the page\'s address on with nothing but scripts, and with those when the page says so', async ({ page, gateway }) => {
  for (const policy of ['', '<meta name="referrer" content="no-referrer">']) {
    gateway.reset();
    await page.goto(`${gateway.url}${BLANK}?q=${encodeURIComponent(QUESTIONS[1]!)}`);
    const navigation = gateway.requests.length;
    await page.evaluate(
      async ({ entry, policy }) => {
        document.head.insertAdjacentHTML('beforeend', policy);
        await caches.keys().then((names) => Promise.all(names.map((name) => caches.delete(name))));
        const { SearchClient, QuestionEncoder } = (await import(entry)) as typeof window.dpr;
        (await QuestionEncoder.load('/v1/model', { device: 'cpu' })).dispose();
        const client = await SearchClient.connect('/', { device: 'cpu' });
        await client.search('who');
        client.dispose();
      },
      { entry: `${PACKAGE}dist/index.js`, policy },
    );
    const telling = gateway.requests.slice(navigation).filter((request) => leaks(request, QUESTIONS).length > 0);
    for (const part of ['/v1/model', '/v1/model/files/', '/v1/search', '.wasm', 'worker-cpu.js']) {
      expect(gateway.matching(part), part).not.toEqual([]);
    }
    // Imports and the worker's script: what no script can ask for without a referrer.
    const scripts = telling.filter(({ path }) => path.startsWith(`${PACKAGE}dist/`) && path.endsWith('.js'));
    expect(telling.map(({ path }) => path)).toEqual(scripts.map(({ path }) => path));
    if (policy !== '') expect(telling).toEqual([]);
  }
});

test('without a policy, a worker that imports the script passes the page\'s address on with no request at all', async ({ page, gateway }) => {
  await page.goto(`${gateway.url}${BLANK}?q=${encodeURIComponent(QUESTIONS[1]!)}`);
  const navigation = gateway.requests.length;
  await page.evaluate(async (folder) => {
    const { SearchClient } = (await import(`${folder}index.js`)) as typeof window.dpr;
    const script = new URL(`${folder}worker/worker-cpu.js`, location.href).href;
    const source = new Blob([`import ${JSON.stringify(script)};`], { type: 'text/javascript' });
    const createWorker = () => new Worker(URL.createObjectURL(source), { type: 'module' });
    const client = await SearchClient.connect('/', { device: 'cpu', createWorker });
    await client.search('who');
    client.dispose();
  }, `${PACKAGE}dist/`);
  for (const part of ['/v1/model/files/', '/v1/search', '.wasm', 'worker-cpu.js']) expect(gateway.matching(part), part).not.toEqual([]);
  const telling = gateway.requests.slice(navigation).filter((request) => leaks(request, QUESTIONS).length > 0);
  expect(telling.map(({ path }) => path)).toEqual([]);
});

test('a question in the page\'s own address does not travel as the referrer', async ({ page, gateway }) => {
  await openDemo(page, gateway, '?device=cpu');
  await ready(page);
  await page.evaluate(() => history.replaceState(null, '', '?device=cpu&q=zarquon'));
  await ask(page, 'zarquon');
  await expect(page.locator('.request')).toHaveCount(1);
  expect(gateway.matching('/v1/search')[0]!.headers.referer).toBeUndefined();
});

test('the check finds what it looks for', () => {
  const found = (text: string) => leaks(request(text), ['won super bowl 50']).length > 0;
  expect(found('q=SUPER')).toBe(true);
  expect(found('q=won')).toBe(true);
  expect(found(encodeURIComponent('won super bowl 50'))).toBe(true);
  expect(found(JSON.stringify({ vector: 'AAAA', words: 'bowl' }))).toBe(true);
  for (const before of ['', 'a', 'ab']) {
    expect(found(JSON.stringify({ vector: Buffer.from(`${before}super bowl`).toString('base64') }))).toBe(true);
  }
  expect(found(JSON.stringify({ vector: 'AAAA', model: 'wonder' }))).toBe(false);
});

function request(body: string): Recorded {
  return { method: 'POST', path: '/v1/search', headers: {}, rawHeaders: [], body: Buffer.from(body) };
}

/** Everything that goes anywhere but to the gateway over plain HTTP. */
function watch(page: Page, origin: string): string[] {
  const seen: string[] = [];
  page.context().on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !/^(data|blob|about):/.test(url)) seen.push(url);
  });
  page.on('websocket', (socket) => seen.push(socket.url()));
  return seen;
}

/** What of the questions a request holds, in words; empty when nothing. */
function leaks({ method, path, rawHeaders, body }: Recorded, questions: string[]): string[] {
  const head = `${method} ${path}\n${rawHeaders.join('\n')}\n`;
  const all = head + body.toString('latin1');
  // The vector is base64 and holds any short word by chance: plain words are looked for around it.
  const around = head + body.toString('latin1').replace(/("vector":")[A-Za-z0-9+/=]*"/, '$1"');
  return questions.flatMap((question) => [
    ...spellings(question).filter((spelling) => holds(around, spelling)).map((spelling) => `${path} holds "${spelling}"`),
    ...base64Traces(question).filter((trace) => all.includes(trace)).map((trace) => `${path} holds base64 "${trace}"`),
  ]);
}

/** Whether a request holds this text, in words or in base64. */
function holdsWhole({ method, path, rawHeaders, body }: Recorded, text: string): boolean {
  const all = `${method} ${path}\n${rawHeaders.join('\n')}\n${body.toString('latin1')}`;
  const [first] = spellings(text);
  return [first!, encodeURIComponent(text), ...wholeTraces(text)].some((trace) => all.includes(trace));
}

/** Case does not matter; a short word counts when nothing of a longer word stands beside it. */
function holds(text: string, spelling: string): boolean {
  if (spelling.length > 4) return text.toLowerCase().includes(spelling.toLowerCase());
  const literal = spelling.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`(?<![a-z0-9])${literal}(?![a-z0-9])`, 'i').test(text);
}

/** The question and each of its words: as UTF-8, percent-encoded, form-encoded, and with JSON escapes. */
function spellings(question: string): string[] {
  const forms = [question, ...question.split(' ')].flatMap((text) => [
    Buffer.from(text).toString('latin1'),
    encodeURIComponent(text),
    new URLSearchParams({ q: text }).toString().slice(2),
    text.replace(/[^\x20-\x7e]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`),
  ]);
  return [...new Set(forms)];
}

/** What base64 of anything that holds the question or a word of it must hold, at each of the three alignments. */
function base64Traces(question: string): string[] {
  return [question, ...question.split(' ')].flatMap((text) => [text, text.toLowerCase()].flatMap(wholeTraces));
}

function wholeTraces(text: string): string[] {
  const bytes = Buffer.from(text);
  return [0, 1, 2].flatMap((skip) => {
    // Whole groups of three bytes only: the others depend on what stands before and after.
    const whole = bytes.subarray(skip, skip + 3 * Math.floor((bytes.length - skip) / 3));
    return whole.length > 0 ? [whole.toString('base64')] : [];
  });
}
