import { chromium } from '@playwright/test';
import { ask, expect, openBlank, openDemo, ready, test } from './support/fixtures.ts';
import { BLANK } from './support/gateway.ts';
import { exposeGpuDevices, gpuWorker, loseGpu } from './support/gpu-devices.ts';

test('a browser without WebGPU uses the CPU and never asks for the WebGPU module', async ({ gateway }) => {
  // A browser of its own: the others are started with a software adapter.
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-features=WebGPU,WebGPUService'],
  });
  try {
    const page = await browser.newPage();
    await openBlank(page, gateway);
    const outcome = await page.evaluate(async () => {
      const events: string[] = [];
      const onProgress = (event: { status: string }) => void events.push(event.status);
      const auto = await window.dpr.SearchClient.connect('/', { device: 'auto', onProgress });
      const wanted = await window.dpr.SearchClient.connect('/', { device: 'webgpu', onProgress });
      const { hits } = await wanted.search('who won super bowl 50', { k: 1 });
      const devices = [auto.device, wanted.device];
      auto.dispose();
      wanted.dispose();
      return { devices, title: hits[0]!.title, fallbacks: events.filter((status) => status === 'fallback').length };
    });
    expect(outcome).toEqual({ devices: ['cpu', 'cpu'], title: 'Super Bowl 50', fallbacks: 1 });
    expect(gateway.matching('wasm/webgpu')).toEqual([]);
  } finally {
    await browser.close();
  }
});

test('a corrupted download is refused, named, and not kept', async ({ blank, gateway }) => {
  gateway.intercept((request, response) => {
    if (!request.path.includes('q8.safetensors')) return false;
    void spoiled(request.path).then((bytes) => response.end(bytes));
    return true;
  });
  const load = () =>
    blank.evaluate(async () => {
      try {
        (await window.dpr.QuestionEncoder.load('/v1/model', { device: 'cpu', dtype: 'q8' })).dispose();
        return undefined;
      } catch (error) {
        const { name, message, file } = error as Error & { file: string };
        return { name, message, file };
      }
    });
  const error = await load();
  expect(error?.name).toBe('IntegrityError');
  expect(error?.file).toContain('q8.safetensors');
  expect(error?.message).toMatch(/expected sha256 [0-9a-f]{64}, got [0-9a-f]{64}/);
  gateway.reset();
  expect(await load()).toBeUndefined();
  expect(gateway.matching('q8.safetensors').length).toBe(1);
});

test('a spoiled cache entry is downloaded again', async ({ blank, gateway }) => {
  const load = () =>
    blank.evaluate(async () => (await window.dpr.QuestionEncoder.load('/v1/model', { device: 'cpu', dtype: 'q8' })).dispose());
  await load();
  await blank.evaluate(async () => {
    for (const name of await caches.keys()) {
      const cache = await caches.open(name);
      for (const key of await cache.keys()) {
        const bytes = new Uint8Array(await (await cache.match(key))!.arrayBuffer());
        bytes[bytes.length >> 1]! ^= 1;
        await cache.put(key, new Response(bytes));
      }
    }
  });
  gateway.reset();
  await load();
  expect(gateway.matching('/v1/model/files/').length).toBe(3);
  gateway.reset();
  await load();
  expect(gateway.matching('/v1/model/files/')).toEqual([]);
});

test('a connection that breaks is taken up where it broke', async ({ blank, gateway }) => {
  gateway.intercept((request, response, count) => {
    if (!request.path.includes('q8.safetensors') || count > 1) return false;
    void original(request.path).then((bytes) => {
      response.writeHead(200, { 'content-length': bytes.length });
      response.write(bytes.subarray(0, 5_000_000), () => setTimeout(() => response.destroy(), 200));
    });
    return true;
  });
  const resumed = await blank.evaluate(async () => {
    const resumedAt: number[] = [];
    const encoder = await window.dpr.QuestionEncoder.load('/v1/model', {
      device: 'cpu',
      dtype: 'q8',
      onProgress: (event) => event.status === 'download' && event.file.includes('q8') && resumedAt.push(event.resumedAt),
    });
    encoder.dispose();
    return resumedAt;
  });
  expect(resumed[0]).toBe(0);
  expect(resumed[1]).toBeGreaterThan(0);
  expect(gateway.matching('q8.safetensors')[1]!.headers.range).toBe(`bytes=${resumed[1]}-`);
});

test('a failed download is said in words, and the page tries again when asked to', async ({ page, gateway }) => {
  gateway.intercept((request, response) => {
    if (!request.path.includes('q8.safetensors')) return false;
    response.writeHead(500).end();
    return true;
  });
  await openDemo(page, gateway);
  const error = page.locator('#error');
  await expect(error).toContainText('could not be downloaded');
  await expect(error).toContainText('Check the connection');
  gateway.reset();
  await error.getByRole('button').click();
  await ready(page);
  await expect(error).toBeHidden();
});

test('the server\'s errors reach the page with their code and their fix', async ({ blank }) => {
  const errors = await blank.evaluate(async () => {
    const client = await window.dpr.SearchClient.connect('/', { device: 'cpu' });
    const attempt = (k: number) => client.search('who', { k }).then(() => undefined, (error: Error & { code: string; status: number; fix: string }) => [error.name, error.code, error.status, error.fix.length > 0]);
    const result = [await attempt(0), await attempt(1_000_000)];
    client.dispose();
    return result;
  });
  expect(errors).toEqual([
    ['ServerError', 'invalid_k', 422, true],
    ['ServerError', 'invalid_k', 422, true],
  ]);
});

test('a server that is gone is said in words', async ({ page, gateway }) => {
  await openDemo(page, gateway);
  await ready(page);
  gateway.intercept((request, response) => {
    if (!request.path.includes('/v1/search')) return false;
    response.destroy();
    return true;
  });
  await ask(page, 'who won super bowl 50');
  await expect(page.locator('#error')).toContainText('did not answer');
  gateway.reset();
  await page.locator('#error').getByRole('button').click();
  await expect(page.locator('.result')).toHaveCount(10);
  // The button is gone; the keyboard goes on in the question.
  await expect(page.locator('#question')).toBeFocused();
});

test('after a failed load a search while typing loads the encoder again, and Enter goes on with it', async ({ page, gateway }) => {
  gateway.intercept((request, response) => {
    if (!request.path.includes('q8.safetensors')) return false;
    response.writeHead(500).end();
    return true;
  });
  await openDemo(page, gateway);
  await expect(page.locator('#error')).toContainText('could not be downloaded', { timeout: 60_000 });
  gateway.reset();
  await page.locator('#options summary').click();
  await page.getByLabel('Search while typing').check();
  await page.fill('#question', 'who won super bowl 50');
  await expect(page.locator('.result')).toHaveCount(10, { timeout: 60_000 });
  await ready(page);
  await expect(page.locator('#error')).toBeHidden();
  const asked = gateway.matching('/v1/model').length;
  await page.press('#question', 'Enter');
  await expect(page.locator('.request')).toHaveCount(2);
  await expect(page.locator('#results')).toHaveAttribute('aria-busy', 'false');
  expect(gateway.matching('/v1/model')).toHaveLength(asked);
});

test('dispose during a search rejects it, and searches after it', async ({ blank }) => {
  const names = await blank.evaluate(async () => {
    const client = await window.dpr.SearchClient.connect('/', { device: 'cpu' });
    const name = (promise: Promise<unknown>) => promise.then(() => 'answered', (error: Error) => error.name);
    const running = [name(client.search('who won super bowl 50')), name(client.search('what is a prime number'))];
    client.dispose();
    return Promise.all([...running, name(client.search('too late'))]);
  });
  expect(names).toEqual(['DisposedError', 'DisposedError', 'DisposedError']);
});

test('two searches at once get their own answers', async ({ blank }) => {
  const titles = await blank.evaluate(async () => {
    const client = await window.dpr.SearchClient.connect('/', { device: 'cpu' });
    const questions = ['who won super bowl 50', 'what is the only even prime number'];
    const found = await Promise.all(questions.map((question) => client.search(question, { k: 1 })));
    client.dispose();
    return found.map(({ hits }) => hits[0]!.title);
  });
  expect(titles).toEqual(['Super Bowl 50', 'Prime number']);
});

test('an aborted search rejects with its reason and leaves the client usable', async ({ blank }) => {
  const outcome = await blank.evaluate(async () => {
    const client = await window.dpr.SearchClient.connect('/', { device: 'cpu' });
    const controller = new AbortController();
    const aborted = client.search('who won super bowl 50', { signal: controller.signal }).catch((error: Error) => error.name);
    controller.abort();
    const { hits } = await client.search('who won super bowl 50', { k: 1 });
    client.dispose();
    return [await aborted, hits[0]!.title];
  });
  expect(outcome).toEqual(['AbortError', 'Super Bowl 50']);
});

test('a GPU lost during a search: the CPU answers it', async ({ page, gateway }) => {
  test.setTimeout(240_000);
  gateway.intercept(exposeGpuDevices);
  await openBlank(page, gateway);
  const worker = gpuWorker(page);
  await page.evaluate(async () => {
    const client = await window.dpr.SearchClient.connect('/', {
      device: 'webgpu',
      dtype: 'q8',
      onProgress: (event) => {
        if (event.status === 'fallback') Object.assign(window, { fallback: event });
      },
    });
    Object.assign(window, { client, before: client.device });
  });
  await page.evaluate(() => {
    const { client } = window as unknown as { client: import('../../wasm/npm/src/index.ts').SearchClient };
    Object.assign(window, { found: client.search('who won super bowl 50', { k: 1 }) });
  });
  await loseGpu(worker);
  const outcome = await page.evaluate(async () => {
    const { client, before, found, fallback } = window as unknown as {
      client: import('../../wasm/npm/src/index.ts').SearchClient;
      before: string;
      found: Promise<import('../../wasm/npm/src/index.ts').SearchResult>;
      fallback: unknown;
    };
    const first = (await found).hits[0]!.title;
    const second = (await client.search('what is the only even prime number', { k: 1 })).hits[0]!.title;
    const after = client.device;
    client.dispose();
    return { before, after, first, second, fallback: fallback ?? (window as unknown as { fallback: unknown }).fallback };
  });
  expect(outcome).toMatchObject({
    before: 'webgpu',
    after: 'cpu',
    first: 'Super Bowl 50',
    second: 'Prime number',
    fallback: { status: 'fallback', from: 'webgpu', to: 'cpu', reason: expect.stringMatching(/lost|failed/) },
  });
  // The weights were here already.
  expect(gateway.matching('q8.safetensors').length).toBe(1);
});

test('a GPU lost without a network, where the CPU\'s worker was never fetched: an error that names its script, and an answer once the network is back', async ({ page, gateway }) => {
  test.setTimeout(240_000);
  gateway.intercept(exposeGpuDevices);
  await openBlank(page, gateway);
  const worker = gpuWorker(page);
  await page.evaluate(async () => {
    const client = await window.dpr.SearchClient.connect('/', { device: 'webgpu', dtype: 'q8', retry: 0 });
    const changes: unknown[] = [];
    client.addEventListener('devicechange', ({ detail }) => changes.push(detail));
    Object.assign(window, { client, changes });
    await client.search('who won super bowl 50', { k: 1 });
  });
  expect(gateway.matching('/worker/worker-cpu.js')).toEqual([]);
  expect(gateway.matching('wasm/cpu/')).toEqual([]);
  gateway.intercept((_, response) => {
    response.destroy();
    return true;
  });
  await loseGpu(worker);
  const encode = () =>
    page.evaluate(async () => {
      const { client, changes } = window as unknown as { client: import('../../wasm/npm/src/index.ts').SearchClient; changes: unknown[] };
      const said = await client.encodeMany(['who won super bowl 50']).then(
        ([vector]) => ({ dim: vector!.length }),
        ({ name, code, message, fix }: Error & { code: string; fix: string }) => ({ name, code, message, fix }),
      );
      return { said, changes };
    });
  for (let times = 0; times < 2; times++) {
    const { said, changes } = await encode();
    expect(said).toMatchObject({ name: 'EncoderError', code: 'worker_not_loaded', fix: expect.stringMatching(/./) });
    expect((said as { message: string }).message).toContain(`${gateway.url}/package/dist/worker/worker-cpu.js`);
    expect(changes).toEqual([]);
  }

  gateway.reset();
  const { said, changes } = await encode();
  expect(said).toEqual({ dim: expect.any(Number) });
  expect(changes).toEqual([{ from: 'webgpu', to: 'cpu', reason: expect.any(String) }]);
  // The weights were here already.
  expect(gateway.matching('q8.safetensors')).toEqual([]);
});

test('a WebGPU module that cannot be loaded leaves the CPU', async ({ blank, gateway }) => {
  gateway.intercept((request, response) => {
    if (!request.path.includes('wasm/webgpu/')) return false;
    response.writeHead(404).end();
    return true;
  });
  const outcome = await blank.evaluate(async () => {
    const events: { status: string }[] = [];
    const client = await window.dpr.SearchClient.connect('/', { device: 'webgpu', onProgress: (event) => events.push(event) });
    const { hits } = await client.search('who won super bowl 50', { k: 1 });
    const device = client.device;
    client.dispose();
    return { device, title: hits[0]!.title, fallbacks: events.filter(({ status }) => status === 'fallback').length };
  });
  expect(outcome).toEqual({ device: 'cpu', title: 'Super Bowl 50', fallbacks: 1 });
});

for (const device of ['cpu', 'webgpu'] as const) {
  for (const [what, status, said] of [
    ['has nothing in it', 200, 'said nothing for 2 s'],
    ['is not there', 404, 'could not be loaded'],
  ] as const) {
    test(`a worker's script that ${what} is an error with its address and what to do (${device})`, async ({ blank, gateway }) => {
      gateway.intercept((request, response) => {
        if (!/\/worker\/worker-\w+\.js$/.test(request.path)) return false;
        response.writeHead(status, { 'content-type': 'text/javascript' }).end();
        return true;
      });
      const error = await blank.evaluate(
        (device) =>
          window.dpr.SearchClient.connect('/', { device, startTimeout: 2000 }).then(
            () => undefined,
            ({ name, message, fix }: Error & { fix: string }) => ({ name, message, fix }),
          ),
        device,
      );
      expect(error?.name).toBe('EncoderError');
      // WebGPU has half the time, and the CPU the rest of it.
      expect(error?.message).toContain(device === 'webgpu' ? said.replace('2 s', '1 s') : said);
      expect(error?.message).toContain(`${gateway.url}/package/dist/worker/worker-cpu.js`);
      expect(error?.fix).toContain('dpr-web/worker');
    });
  }
}

test('a page with COEP whose worker\'s script has none is an error with its address and what to send', async ({ page, gateway }) => {
  const isolated = { 'cross-origin-embedder-policy': 'require-corp' };
  for (const sent of [false, true]) {
    gateway.reset();
    gateway.intercept((request, response) => {
      const isPage = request.path.startsWith(BLANK);
      if (isPage || sent) for (const [name, value] of Object.entries(isolated)) response.setHeader(name, value);
      return false;
    });
    await openBlank(page, gateway);
    const outcome = await page.evaluate(() =>
      window.dpr.SearchClient.connect('/', { device: 'cpu' }).then(
        (client) => client.dispose(),
        ({ code, message, fix }: Error & { code: string; fix: string }) => ({ code, message, fix }),
      ),
    );
    if (sent) {
      expect(outcome).toBeUndefined();
      continue;
    }
    expect(outcome?.code).toBe('worker_not_loaded');
    expect(outcome?.message).toContain(`${gateway.url}/package/dist/worker/worker-cpu.js`);
    expect(outcome?.fix).toContain('cross-origin-embedder-policy');
  }
});

test('a worker of the page\'s own works, also one that has been running for long, and a script that is none is named', async ({ blank, gateway }) => {
  const outcome = await blank.evaluate(async (entry) => {
    const search = async (worker: Worker) => {
      const client = await window.dpr.SearchClient.connect('/', { device: 'cpu', createWorker: () => worker });
      const { hits } = await client.search('who won super bowl 50', { k: 1 });
      client.dispose();
      return hits[0]!.title;
    };
    const make = (name: string) => new Worker(`${entry}${name}`, { type: 'module' });
    const early = make('worker.js');
    // Its hello has come and gone when it is handed over.
    await new Promise((resolve) => early.addEventListener('message', resolve, { once: true }));
    const titles = [await search(early), await search(make('worker-cpu.js'))];
    // A module that is no worker's entry: it runs and listens to nothing.
    const wrong = await window.dpr.SearchClient.connect('/', { device: 'cpu', startTimeout: 2000, createWorker: () => make('median.js') }).catch((error: Error) => error.message);
    return { titles, wrong };
  }, `${gateway.url}/package/dist/worker/`);
  expect(outcome.titles).toEqual(['Super Bowl 50', 'Super Bowl 50']);
  expect(outcome.wrong).toContain(`the worker ${gateway.url}/package/dist/worker/median.js said nothing for 2 s`);
});

test('a module that is not where it should be is named', async ({ blank, gateway }) => {
  const error = await blank.evaluate(() =>
    window.dpr.SearchClient.connect('/', { device: 'cpu', wasmUrl: { cpu: '/package/nowhere.wasm' } }).then(
      () => undefined,
      ({ name, message, fix }: Error & { fix: string }) => ({ name, message, fix }),
    ),
  );
  expect(error?.name).toBe('EncoderError');
  expect(error?.message).toContain(`${gateway.url}/package/nowhere.wasm could not be fetched: the server answered 404`);
  expect(error?.fix).toContain('wasmUrl');
});

test('auto measures once and remembers', async ({ blank }) => {
  test.setTimeout(240_000);
  const visit = () =>
    blank.evaluate(async () => {
      const statuses: string[] = [];
      const client = await window.dpr.SearchClient.connect('/', { device: 'auto', onProgress: (event) => statuses.push(event.status) });
      const { device: before } = client;
      // The CPU answers while WebGPU is timed.
      const { hits } = await client.search('who won super bowl 50', { k: 1 });
      const remembered = () => Object.keys(localStorage).some((key) => key.startsWith('dpr-web:device:'));
      while (!remembered()) await new Promise((resolve) => setTimeout(resolve, 50));
      const { device, dtype } = client;
      client.dispose();
      return { before, device, dtype, title: hits[0]!.title, measured: statuses.filter((status) => status === 'measure').length };
    });
  const { before, ...first } = await visit();
  expect(before).toBe('cpu');
  expect(first).toMatchObject({ dtype: 'q8', title: 'Super Bowl 50', measured: 2 });
  expect(await visit()).toEqual({ ...first, before: first.device, measured: 0 });
});

/** A file as the server has it. */
async function original(path: string): Promise<Buffer> {
  return Buffer.from(await (await fetch(new URL(path, process.env.DPR_URL))).arrayBuffer());
}

/** The same with one bit flipped. */
async function spoiled(path: string): Promise<Buffer> {
  const bytes = await original(path);
  bytes[bytes.length >> 1]! ^= 0x10;
  return bytes;
}
