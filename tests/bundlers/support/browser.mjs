// Opens a built page in a browser, asks it, and holds the answer against Python's.
import { gzipSync } from 'node:zlib';
import { leaksOf, told, unrecorded } from './leaks.mjs';
import { cosine, nearest, QUESTIONS } from './questions.mjs';

const HITS = 5;
/** 8-bit weights give 0.9998; the question without its last character gives 0.994. */
export const LEAST_COSINE = 0.999;

/**
 * Opens the page with the question in its address, asks it with each device that the browser has, and fails unless the
 * right passages are printed, nothing that was sent holds the question, and the console has no error.
 *
 * @param browser - of browsers.mjs
 * @param recorder - what the browser sends goes through it
 * @param watched - servers that keep what arrives
 * @param inAddress - whether the question stands in the page's address as well
 * @returns bytes of JavaScript that page and worker asked for, plain and by gzip
 */
export async function askPage({ browser, recorder }, url, { server, watched, inspect, inAddress = true }) {
  const { requests, elsewhere } = recorder;
  let size;
  for (const [at, device] of browser.devices.entries()) {
    const question = QUESTIONS[at];
    const { page, close } = await browser.open();
    try {
      const seen = watch(page);
      const [before, arrived] = [server.searches.length, watched.map(({ requests }) => requests.length)];
      const [first, away] = [requests.length, elsewhere.length];
      const address = `${url}?${new URLSearchParams({ server: server.url, device, ...(inAddress && { q: question.text }) })}`;
      await page.goto(address);
      const printed = await ask(page, question.text).catch((error) => {
        throw new Error(`${device}: ${error.message}\n${seen.report()}`);
      });
      await inspect?.(page);
      const errors = [...seen.errors, ...((await page.errors?.()) ?? [])];
      // A beacon goes when the page does.
      await page.goto('about:blank');
      const wrong = [
        ...errors,
        ...judge(printed, device, question, server.searches.slice(before)),
        ...seen.frames.flatMap((text) => told(text, question.text)),
        ...requests.slice(first).flatMap((request) => leaksOf(request, { address, question: question.text })),
        ...elsewhere
          .slice(away)
          .filter((what) => !browser.isOwn(what))
          .map((what) => `another machine was asked: ${what}`),
        ...watched.flatMap(({ requests }, at) => unrecorded(requests.slice(arrived[at]))),
      ];
      if (wrong.length > 0) throw new Error(`${device}: ${wrong.join('\n')}\n${seen.report()}`);
      size ??= await seen.scripts();
    } finally {
      await close();
    }
  }
  return size;
}

/** Types a question as a person does and returns what the page prints. */
async function ask(page, question) {
  // A page that a server has rendered is not ready before its script has run.
  await until(page, /\S/, 60_000);
  await page.focus('#question');
  await page.keyboard.type(question);
  await page.keyboard.press('Enter');
  const state = await until(page, /^(answered|failed)/, 90_000);
  return {
    state,
    hits: await page.evaluate("[...document.querySelectorAll('#hits li')].map((hit) => hit.textContent)"),
  };
}

/** Waits until the page's state is such a text, and returns it. */
async function until(page, pattern, most) {
  for (const end = Date.now() + most; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
    // A development server may load the page anew in the middle.
    const state = await page.evaluate("document.getElementById('state')?.textContent ?? ''").catch(() => '');
    if (pattern.test(state.trim())) return state.trim();
    if (Date.now() > end)
      throw new Error(`the page says ${JSON.stringify(state)} after ${most / 1000} s, expected ${pattern}`);
  }
}

/** What is wrong with a page's answer. */
export function judge({ state, hits }, device, question, searches) {
  if (state !== `answered on ${device}`) return [`the page says: ${state}`];
  if (searches.length !== 1) return [`${searches.length} searches arrived, expected 1`];
  const likeness = cosine(searches[0], question.vector);
  const [best] = nearest(question.vector, 1);
  return [
    ...(likeness < LEAST_COSINE ? [`the vector's cosine to Python's is ${likeness}, expected ${LEAST_COSINE}`] : []),
    ...(hits.length === HITS && hits[0].includes(best.title)
      ? []
      : [`the page prints ${JSON.stringify(hits)}, expected ${best.title} first of ${HITS}`]),
  ];
}

/** Keeps what the page says; nothing where the browser's driver has no events. */
function watch(page) {
  const [errors, responses, frames, said] = [[], [], [], []];
  page.on?.('console', (message) => {
    said.push(`${message.type()}: ${message.text()}`);
    if (message.type() === 'error') errors.push(`console: ${message.text()} ${message.location().url ?? ''}`);
  });
  page.on?.('pageerror', (error) => errors.push(`uncaught: ${error.stack ?? error}`));
  page.on?.('requestfailed', (request) => said.push(`failed: ${request.url()} ${request.failure()?.errorText}`));
  page.on?.('response', (response) => {
    if (response.status() >= 400) said.push(`${response.status()}: ${response.url()}`);
    if (/javascript/.test(response.headers()['content-type']))
      responses.push(Promise.resolve(response.body?.() ?? Buffer.alloc(0)).catch(() => Buffer.alloc(0)));
  });
  page.on?.('websocket', (socket) => socket.on('framesent', ({ payload }) => frames.push(String(payload))));
  return {
    errors,
    frames,
    scripts: async () => {
      const bodies = await Promise.all(responses);
      if (bodies.every((body) => body.length === 0)) return undefined;
      const sum = (bytes) => bytes.reduce((total, more) => total + more, 0);
      return { raw: sum(bodies.map((body) => body.length)), gzip: sum(bodies.map((body) => gzipSync(body).length)) };
    },
    report: () =>
      [`errors: ${errors.join('\n') || 'none'}`, `console and network: ${said.join('\n') || 'nothing'}`].join('\n'),
  };
}
