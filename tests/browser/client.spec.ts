import { ask, expect, hold, openBlank, openDemo, ready, test } from './support/fixtures.ts';
import { PACKAGE, plainHost } from './support/gateway.ts';

// What a page sees of a client beside its answers: what it downloads, what it tells, what it does without a network.

test('twenty keystrokes that abort each other encode two questions and send one', async ({ blank, gateway }) => {
  const { encoded, title } = await blank.evaluate(async () => {
    const encoded: string[] = [];
    const createWorker = () => {
      const worker = new Worker('/package/dist/worker/worker-cpu.js', { type: 'module' });
      const post = worker.postMessage.bind(worker);
      worker.postMessage = (message: { type: string; text: string }, transfer: Transferable[]) => {
        if (message.type === 'encode') encoded.push(message.text);
        post(message, transfer);
      };
      return worker;
    };
    const client = await window.dpr.SearchClient.connect('/', { device: 'cpu', createWorker });
    const question = 'who won super bowl 50';
    let last = new AbortController();
    const given = [];
    // At once: the first is encoded before the last key has come, however fast the machine is.
    for (let key = 1; key <= question.length; key++) {
      last.abort();
      last = new AbortController();
      given.push(client.search(question.slice(0, key), { k: 1, signal: last.signal }).catch(() => undefined));
    }
    const found = await Promise.all(given);
    client.dispose();
    return { encoded, title: found.at(-1)!.hits[0]!.title };
  });
  expect(title).toBe('Super Bowl 50');
  expect(encoded.length).toBeLessThanOrEqual(2);
  expect(gateway.matching('/v1/search').length).toBe(1);
});

test('two clients and two tabs download a model once', async ({ page, context, gateway }) => {
  await openBlank(page, gateway);
  const other = await context.newPage();
  await openBlank(other, gateway);
  const load = () =>
    Promise.all([1, 2].map(() => window.dpr.SearchClient.connect('/', { device: 'cpu' }))).then((clients) => {
      for (const client of clients) client.dispose();
    });
  await Promise.all([page.evaluate(load), other.evaluate(load)]);
  expect(gateway.matching('/v1/model/files/').length).toBe(3);
});

test('two tabs with a shared worker have one download, one module and one engine, until the last is closed', async ({
  page,
  context,
  gateway,
}) => {
  await openBlank(page, gateway);
  const other = await context.newPage();
  await openBlank(other, gateway);
  const encode = async () => {
    const options = { device: 'cpu', worker: 'shared', retry: 0 } as const;
    const encoder = await window.dpr.QuestionEncoder.load('/v1/model', options);
    const vectors = await encoder.encodeMany(['who won super bowl 50', 'what is a prime number']);
    return { isShared: encoder.isShared, tokens: await encoder.countTokens('who'), vectors: vectors.map((vector) => [...vector]) };
  };
  const [one, two] = await Promise.all([page.evaluate(encode), other.evaluate(encode)]);
  expect(one.isShared).toBe(true);
  expect(two).toEqual(one);
  expect(one.tokens).toBe(3);
  expect(gateway.matching('/v1/model/files/').length).toBe(3);
  expect(gateway.matching('dpr_wasm_bg.wasm').length).toBe(1);
  expect(gateway.matching('worker-cpu.js').length).toBe(1);

  // A tab that is closed takes nothing with it.
  await page.close();
  const third = await context.newPage();
  await openBlank(third, gateway);
  expect(await third.evaluate(encode)).toEqual(one);
  expect(gateway.matching('dpr_wasm_bg.wasm').length).toBe(1);

  // The last one ends the worker: whoever comes then begins with the module again.
  await other.close();
  await third.goto('about:blank');
  await expect
    .poll(async () => {
      await openBlank(third, gateway);
      const { isShared } = await third.evaluate(encode);
      const modules = gateway.matching('dpr_wasm_bg.wasm').length;
      await third.goto('about:blank');
      return isShared && modules > 1;
    })
    .toBe(true);
});

test('a server with another model is searched with that, without a reload', async ({ blank, gateway }) => {
  const other = 'ab'.repeat(32);
  await blank.evaluate(async () => {
    const client = await window.dpr.SearchClient.connect('/', { device: 'cpu' });
    await client.search('who won super bowl 50', { k: 1 });
    Object.assign(window, { client });
  });
  // From now on the server says that it has another model; its files are the same.
  gateway.intercept((request, response) => {
    const answer = (status: number, body: object) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    if (request.path.endsWith('/v1/model')) {
      void fetch(new URL('/v1/model', process.env.DPR_URL)).then(async (truth) => {
        answer(200, { ...((await truth.json()) as object), fingerprint: other });
      });
      return true;
    }
    if (!request.path.endsWith('/v1/search')) return false;
    const { model } = JSON.parse(request.body.toString()) as { model: string };
    if (model === other) answer(200, { hits: [], took_ms: 1 });
    else answer(409, { error: { code: 'wrong_model', message: 'another model', fix: 'load it' } });
    return true;
  });
  const searches = gateway.matching('/v1/search').length;
  const found = await blank.evaluate(async () => {
    const { client } = window as unknown as { client: InstanceType<typeof window.dpr.SearchClient> };
    const changes: string[] = [];
    client.addEventListener('modelchange', ({ detail }) => changes.push(detail.to.fingerprint));
    const { hits } = await client.search('what is a prime number', { k: 1 });
    const models = (await window.dpr.modelCache.list()).map(({ fingerprint }) => fingerprint);
    client.dispose();
    return { hits, changes, models };
  });
  expect(found).toEqual({ hits: [], changes: [other], models: [other] });
  expect(gateway.matching('/v1/search').length).toBe(searches + 2);
});

test('questions are encoded offline after one visit', async ({ blank, gateway }) => {
  const encode = () =>
    blank.evaluate(async () => {
      const encoder = await window.dpr.QuestionEncoder.load('/v1/model', { device: 'cpu', retry: 0 });
      const vector = [...(await encoder.encode('who won super bowl 50'))];
      encoder.dispose();
      return vector;
    });
  const online = await encode();
  // The manifest is kept after the encoder is ready: nobody who asks a question waits for it.
  await expect.poll(() => blank.evaluate(async () => (await window.dpr.modelCache.list()).length)).toBe(1);
  gateway.intercept((request, response) => {
    // The server is gone; the page's own scripts are here, as a service worker would keep them.
    if (request.path.startsWith(PACKAGE)) return false;
    response.destroy();
    return true;
  });
  expect(await encode()).toEqual(online);
});

test('the panel lists searches that fail and searches that are given up', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  gateway.intercept(({ path }, response, count) => {
    if (!path.includes('/v1/search')) return false;
    if (count === 1) response.writeHead(400).end();
    // The second is never answered: the third replaces it.
    return count <= 2;
  });
  await ask(page, 'who won super bowl 50');
  await expect(page.locator('#error')).toBeVisible();
  await ask(page, 'what is a prime number');
  await expect(page.locator('.request')).toHaveCount(2);
  await ask(page, 'when did the black death reach England');
  await expect(page.locator('.result').first()).toBeVisible();
  await expect(page.locator('.request .outcome')).toHaveText(['answered', 'given up', 'failed']);
  const bodies = gateway.matching('/v1/search').map(({ body }) => body.toString('latin1'));
  expect(await page.locator('.request pre').allTextContents()).toEqual(bodies.reverse());
});

test('the list of everything fetched has what the worker fetched', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  const listed = (await page.locator('#fetched li').allTextContents()).join('\n');
  expect(listed).toMatch(/worker-cpu[^\n]*\.js/);
  expect(listed).toMatch(/dpr_wasm_bg[^\n]*\.wasm/);
});

test('Enter before the script is there sends nothing of the question', async ({ page, gateway }) => {
  const release = await hold(page, '**/*.js');
  // A policy would stop the form.
  plainHost(gateway);
  await page.goto(`${gateway.url}/?device=cpu`, { waitUntil: 'commit' });
  await page.fill('#question', 'zarquon');
  await page.press('#question', 'Enter');
  await page.waitForTimeout(500);
  release();
  for (const { path, body, headers } of gateway.requests) expect(`${path} ${String(body)} ${JSON.stringify(headers)}`).not.toContain('zarquon');
});

test('the shortcut of one key can be switched off, and stays off', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await page.locator('#options summary').click();
  await page.locator('#shortcut').uncheck();
  await page.locator('h1').click();
  await page.keyboard.press('/');
  await expect(page.locator('#question')).not.toBeFocused();
  await page.reload();
  await expect(page.locator('#shortcut')).not.toBeChecked();
});

test('a model that the operator changed is loaded by the button of the error', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  gateway.intercept(({ path }, response, count) => {
    if (!path.includes('/v1/search') || count > 1) return false;
    response.writeHead(409, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: { code: 'wrong_model', message: 'the vector is of another model', fix: 'reload' } }));
    return true;
  });
  await ask(page, 'who won super bowl 50');
  const models = gateway.matching('/v1/model').length;
  await page.locator('#error').getByRole('button').click();
  await expect(page.locator('.result')).toHaveCount(10);
  expect(gateway.matching('/v1/model').length).toBeGreaterThan(models);
});

test('the package works from another origin, as a CDN serves it: three scripts', async ({ page, gateway }) => {
  // The same server under another name is another origin.
  const cdn = gateway.url.replace('127.0.0.1', 'localhost');
  gateway.intercept((request, response) => {
    if (request.path.startsWith(PACKAGE)) response.setHeader('access-control-allow-origin', '*');
    return false;
  });
  await page.goto(`${gateway.url}/blank.html`);
  const title = await page.evaluate(async (entry) => {
    const { SearchClient } = (await import(entry)) as typeof window.dpr;
    const client = await SearchClient.connect('/', { device: 'cpu' });
    const { hits } = await client.search('who won super bowl 50', { k: 1 });
    client.dispose();
    return hits[0]!.title;
  }, `${cdn}${PACKAGE}dist/cdn/index.js`);
  expect(title).toBe('Super Bowl 50');
  const scripts = gateway.matching(PACKAGE).map(({ path }) => path).filter((path) => path.endsWith('.js'));
  expect(scripts).toEqual([`${PACKAGE}dist/cdn/index.js`, `${PACKAGE}dist/cdn/worker-cpu.js`, `${PACKAGE}wasm/cpu/dpr_wasm.js`]);
});

for (const [what, policy, outcome] of [
  ['lets WebAssembly in', "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'", 'Super Bowl 50'],
  ['does not let WebAssembly in', "script-src 'self'; worker-src 'self'", 'wasm_blocked_by_csp'],
  ['lets no worker in', "script-src 'self' 'wasm-unsafe-eval'; worker-src 'none'", 'worker_not_loaded'],
  ['asks for trusted types', "require-trusted-types-for 'script'", 'worker_not_loaded'],
] as const) {
  test(`a policy that ${what} has its outcome by name`, async ({ page, gateway }) => {
    gateway.intercept((request, response) => {
      if (request.path.startsWith(PACKAGE) || request.path.startsWith('/blank.html')) response.setHeader('content-security-policy', policy);
      return false;
    });
    await openBlank(page, gateway);
    const found = await page.evaluate(() =>
      window.dpr.SearchClient.connect('/', { device: 'cpu' }).then(
        async (client) => {
          const { hits } = await client.search('who won super bowl 50', { k: 1 });
          client.dispose();
          return hits[0]!.title;
        },
        ({ code }: { code: string }) => code,
      ),
    );
    expect(found).toBe(outcome);
  });
}

test('under trusted types a worker of the page\'s own policy works', async ({ page, gateway }) => {
  gateway.intercept((request, response) => {
    if (request.path.startsWith('/blank.html')) {
      response.setHeader('content-security-policy', "require-trusted-types-for 'script'; trusted-types dpr");
    }
    return false;
  });
  await openBlank(page, gateway);
  const device = await page.evaluate(async () => {
    interface Policy {
      createScriptURL(url: string): string;
    }
    const { trustedTypes } = window as unknown as { trustedTypes: { createPolicy(name: string, rules: Policy): Policy } };
    const policy = trustedTypes.createPolicy('dpr', { createScriptURL: (url) => url });
    const createWorker = () => new Worker(policy.createScriptURL('/package/dist/worker/worker-cpu.js'), { type: 'module' });
    const client = await window.dpr.SearchClient.connect('/', { device: 'cpu', createWorker });
    const { device } = client;
    client.dispose();
    return device;
  });
  expect(device).toBe('cpu');
});
