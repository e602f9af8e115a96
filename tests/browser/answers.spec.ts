import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ask, expect, openBlank, openDemo, ready, test } from './support/fixtures.ts';
import { PACKAGE } from './support/gateway.ts';
import { repository } from './support/paths.ts';
import { offerReader, readerFixture, readerOf, smallReader } from './support/reader.ts';
import { startServer } from './support/serve.ts';
import { squadQuestions } from './support/squad.ts';

/** Questions with the titles and texts of their passages: empty ones, long ones, one with characters beyond U+FFFF. */
const CASES = JSON.parse(readerFixture('cases.json').toString('utf8')) as [string, [string, string][]][];
const SPANS = 3;

interface GoldenAnswer {
  passage: number;
  text: string;
  start: number;
  selection: number;
  score: number;
}

for (const name of ['dpr', 'bert', 'roberta']) {
  // A software adapter is slow; the encoders of the other two are tested on it as cross-encoders.
  for (const module of name === 'dpr' ? ['cpu', 'webgpu'] : ['cpu']) {
    test(`the reader ${name} on the ${module} module answers as transformers does`, async ({ blank }) => {
      test.setTimeout(600_000);
      const { answers: golden, max_tokens } = JSON.parse(readerFixture(`${name}/golden.json`).toString('utf8')) as {
        answers: GoldenAnswer[][];
        max_tokens: number;
      };
      const { config, tokenizer, weights } = smallReader(name);
      for (const [dtype, least] of [
        ['f32', 1],
        ['q8', 0.8],
      ] as const) {
        const files = [config, tokenizer, weights[dtype]!].map((bytes) => bytes.toString('base64'));
        const rows = await blank.evaluate(
          async ([entry, files, maxTokens, cases, spans]) => {
            const { default: init, Reader } = await import(entry);
            await init();
            const bytes = files.map((file) => Uint8Array.from(atob(file), (character) => character.charCodeAt(0)));
            const reader = await Reader.load(...bytes, maxTokens, undefined);
            const rows: number[][] = [];
            for (const [question, passages] of cases) {
              const [titles, texts] = [0, 1].map((part) => passages.map((passage) => passage[part]));
              rows.push([...((await reader.read(question, titles, texts, spans, 10)) as Float64Array)]);
            }
            reader.free();
            return rows;
          },
          [`${PACKAGE}wasm/${module}/dpr_wasm.js`, files, max_tokens, CASES, SPANS] as const,
        );
        let [same, all] = [0, 0];
        for (const [at, [, passages]] of CASES.entries()) {
          const found = bySelection(rows[at]!, passages);
          const expected = golden[at]!;
          all += expected.length;
          for (const [rank, { text, start, passage, selection, score }] of expected.entries()) {
            const got = found[rank];
            if (got?.text !== text || got.start !== start || got.passage !== passage) continue;
            if (dtype === 'f32') {
              expect(Math.abs(got.selection - selection)).toBeLessThanOrEqual(1e-4);
              expect(Math.abs(got.score - score)).toBeLessThanOrEqual(1e-4);
            }
            same++;
          }
          if (dtype === 'f32') expect(found.length).toBe(expected.length);
        }
        console.log(`${name} on ${module}, ${dtype}: ${same} of ${all} answers are those of transformers`);
        // In 8 bits, one span that changes places with another counts twice; at least 131 of 160 were measured.
        expect(same / all).toBeGreaterThanOrEqual(least);
      }
    });
  }
}

/** The answers in a module's numbers, as `best_answers` of `dpr-core` orders them, with places in characters. */
function bySelection(row: number[], passages: [string, string][]): GoldenAnswer[] {
  const width = 1 + 3 * SPANS;
  expect(row.length).toBe(width * passages.length);
  // `null` is what becomes of NaN on the way out of the page.
  const isNumber = (value: number | null | undefined): value is number => typeof value === 'number' && !Number.isNaN(value);
  const chosen = passages
    .map(([, text], passage) => ({ text, passage, logit: row[passage * width] }))
    .filter(({ logit }) => isNumber(logit)) as { text: string; passage: number; logit: number }[];
  chosen.sort((a, b) => b.logit - a.logit || a.passage - b.passage);
  const most = chosen[0]?.logit ?? 0;
  const sum = chosen.reduce((sum, { logit }) => sum + Math.exp(logit - most), 0);
  return chosen.flatMap(({ text, passage, logit }) =>
    Array.from({ length: SPANS }, (_, span) => row.slice(passage * width + 1 + 3 * span, passage * width + 4 + 3 * span))
      .filter(([start]) => isNumber(start))
      .map(([start, end, score]) => ({
        passage,
        text: text.slice(start, end),
        start: [...text.slice(0, start)].length,
        selection: Math.exp(logit - most) / sum,
        score: score!,
      })),
  );
}

test('beside a question encoder that all tabs share, passages are read by a worker for each processor', async ({ page, gateway }) => {
  offerReader(gateway, smallReader());
  await openBlank(page, gateway);
  const client = await page.evaluateHandle(async () => {
    const client = await window.dpr.SearchClient.connect('/', { device: 'cpu', worker: 'shared' });
    await client.answer('who won super bowl 50', { depth: 6 });
    return client;
  });
  const cores = await page.evaluate(() => navigator.hardwareConcurrency);
  // A shared worker is none of these.
  expect(page.workers().length).toBe(Math.min(cores, 4));
  await client.evaluate((client) => client.dispose());
  await expect.poll(() => page.workers().length).toBe(0);
});

test('answers come from the passages found, a second visit downloads nothing, and a search is re-ranked', async ({ page, gateway }) => {
  const files = offerReader(gateway, smallReader());
  for (const [dtype, visit] of [
    ['q8', 1],
    ['q8', 2],
    ['f32', 1],
  ] as const) {
    await openBlank(page, gateway);
    const got = await page.evaluate(async (dtype) => {
      const client = await window.dpr.SearchClient.connect('/', { device: 'cpu', dtype });
      const seen: [number, number][] = [];
      const { answers, hits } = await client.answer('who won super bowl 50', {
        depth: 6,
        count: 6,
        onAnswer: ({ read, total }) => seen.push([read, total]),
      });
      const plain = await client.search('who won super bowl 50', { k: 6 });
      const ranked = await client.search('who won super bowl 50', { k: 6, rerank: { depth: 6 } });
      client.dispose();
      return { answers, hits, seen, plain, ranked };
    }, dtype);
    expect(got.answers.length).toBe(6);
    for (const { text, start, end, passage, hit, confidence } of got.answers) {
      expect(hit.text.slice(start, end)).toBe(text);
      expect(text).not.toBe('');
      expect(got.hits[passage]).toEqual(hit);
      expect(confidence).toBeGreaterThan(0);
      expect(confidence).toBeLessThanOrEqual(1);
    }
    expect(got.seen).toEqual([1, 2, 3, 4, 5, 6].map((read) => [read, 6]));
    expect(got.ranked.reranked).toBe(true);
    // The order of the answers' passages: the reader's selection scores. In 8 bits close calls may change places, because
    // re-ranking has narrower inputs (`ranking.spec.ts`).
    if (dtype === 'f32') expect(got.ranked.hits.map(({ id }) => id)).toEqual(got.answers.map(({ hit }) => hit.id));
    expect(got.ranked.hits.map(({ id }) => id).sort()).toEqual(got.plain.hits.map(({ id }) => id).sort());
    expect(gateway.matching(files[`reader.${dtype}.safetensors`]!).length, `visit ${visit} in ${dtype}`).toBe(1);
  }
});

test('a reader that cannot be downloaded leaves searches as they are, and one of another tokenizer is refused', async ({ page, gateway }) => {
  const spoil = { missing: true };
  const reader = smallReader();
  const files = offerReader(gateway, reader, (request, response) => {
    if (!spoil.missing || !request.path.endsWith('.safetensors')) return false;
    if (!request.path.startsWith('/reader-files/')) return false;
    response.writeHead(404).end();
    return true;
  });
  await openBlank(page, gateway);
  const tried = () =>
    page.evaluate(async () => {
      const client = await window.dpr.SearchClient.connect('/', { device: 'cpu', retry: 0 });
      const plain = await client.search('who', { k: 5 });
      const { hits, reranked, rerankError } = await client.search('who', { k: 5, rerank: { depth: 5 } });
      const refused = await client.answer('who').then(
        () => undefined,
        (error: InstanceType<typeof window.dpr.DprWebError>) => ({ isOurs: error instanceof window.dpr.DprWebError, code: error.code, message: error.message }),
      );
      client.dispose();
      return { same: JSON.stringify(plain.hits) === JSON.stringify(hits), reranked, code: rerankError?.code, refused };
    });
  expect(await tried()).toMatchObject({ same: true, reranked: false, code: 'download_failed', refused: { isOurs: true, code: 'download_failed' } });
  expect(gateway.matching(files['reader.q8.safetensors']!).length).toBe(2);
  spoil.missing = false;
  gateway.reset();
  // The question encoder's tokenizer: 30,522 tokens, of which the reader has 156.
  offerReader(gateway, { ...reader, tokenizer: readFileSync(path.join(repository('data/model', 'DPR_MODEL'), 'question_encoder/tokenizer.json')) });
  const wrong = await tried();
  expect(wrong).toMatchObject({ same: true, reranked: false, code: 'reader_failed', refused: { isOurs: true, code: 'reader_failed' } });
  expect(wrong.refused!.message).toMatch(/30,?522/);
});

test('no passages, empty ones and one of 100,000 words are read, and an abort ends it in the middle', async ({ page, gateway }) => {
  let texts: string[] = [];
  offerReader(gateway, smallReader(), (request, response) => {
    if (request.path !== '/v1/search') return false;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ hits: texts.map((text, at) => ({ id: String(at), score: 1 / (at + 1), title: '', text })), took_ms: 1 }));
    return true;
  });
  await openBlank(page, gateway);
  const asked = (abortAt = Infinity) =>
    page.evaluate(async (abortAt) => {
      const client = await window.dpr.SearchClient.connect('/', { device: 'cpu' });
      const controller = new AbortController();
      let seen = 0;
      const onAnswer = ({ read }: { read: number }) => {
        seen = read;
        if (read === abortAt) controller.abort(new Error('enough'));
      };
      const found = await client.answer('who', { depth: 50, count: 50, signal: controller.signal, onAnswer }).then(
        ({ answers }) => answers.map(({ passage, text }) => [passage, text] as const),
        (error: Error) => error.message,
      );
      client.dispose();
      return { found, seen };
    }, abortAt);
  expect(await asked()).toEqual({ found: [], seen: 0 });
  texts = ['', ' \n', 'word '.repeat(100_000), 'cats sleep'];
  const { found, seen } = await asked();
  expect(seen).toBe(4);
  expect((found as [number, string][]).map(([passage]) => passage).sort()).toEqual([2, 3]);
  texts = Array.from({ length: 50 }, () => 'cats sleep most of the day, and birds are about. '.repeat(20));
  const aborted = await asked(2);
  expect(aborted.found).toBe('enough');
  expect(aborted.seen).toBe(2);
});

test('the demo has switches for answers where the server offers a reader, and marks them in their passages', async ({ page, gateway }) => {
  const marking = page.getByLabel('Mark answers');
  await openDemo(page, gateway);
  await ready(page);
  await expect(marking).toBeHidden();
  offerReader(gateway, smallReader());
  await openDemo(page, gateway);
  await ready(page);
  await marking.check();
  await page.getByLabel('Re-rank').check();
  await ask(page, 'who won super bowl 50');
  // Its passage moves while it has the focus.
  const last = page.locator(`.result[data-id="${await page.locator('.result').nth(9).getAttribute('data-id')}"] h3 button`);
  await last.focus();
  await expect(page.getByText(/^Answer: “.+”, confidence [\d.,]+ %, in .+\.$/)).toBeVisible({ timeout: 60_000 });
  await expect(page.locator('.result mark')).toHaveCount(10);
  await expect(last).toBeFocused();
  expect(await page.locator('.result').count()).toBe(10);
  const best = (await page.locator('.result mark').first().textContent())!;
  await expect(page.getByText(`Answer: “${best}”`), 'the best one is first').toBeVisible();
  // Its passage as the server sent it, and one request for the question.
  expect(gateway.matching('/v1/search').length).toBe(1);
  await expect(page.locator('.request')).toHaveCount(1);
  await marking.uncheck();
  await page.getByLabel('Re-rank').uncheck();
  await ask(page, 'who lost');
  await expect(page.locator('.request')).toHaveCount(2);
  await expect(page.locator('.result mark')).toHaveCount(0);
});

test('what is said of an answer goes with its search: when that is given up, and when other passages are shown', async ({ page, gateway }) => {
  let isHeld = true;
  offerReader(gateway, smallReader(), ({ path }) => isHeld && path.startsWith('/reader-files/'));
  const said = page.getByText(/^(Reading the passages|Answer: “)/);
  const state = page.locator('#state-text');
  const read = async () => {
    await page.getByLabel('Mark answers').check();
    await ask(page, 'who won super bowl 50');
    await expect(said).toBeVisible();
  };
  await openDemo(page, gateway);
  const isReady = await ready(page);
  await read();
  // The search has ended, for however long the passages are read.
  await page.waitForTimeout(300);
  await expect(state).toHaveText(isReady);
  await expect(page.locator('#results')).toHaveAttribute('aria-busy', 'false');
  await page.press('#question', 'Escape');
  await expect(said).toBeHidden();

  isHeld = false;
  await page.reload();
  await ready(page);
  await read();
  await expect(page.locator('.result mark')).toHaveCount(10, { timeout: 60_000 });
  await page.locator('#options summary').click();
  await page.getByLabel('Search while typing').check();
  await page.fill('#question', 'who won super bowl 50 in 2016');
  await expect(page.locator('.request')).toHaveCount(2);
  await expect(page.locator('.result mark')).toHaveCount(0);
  await expect(said).toBeHidden();
});

test('a reader exported by dpr shares its table, and answers in the page as dpr answers', async ({ page, gateway }) => {
  test.setTimeout(600_000);
  const folder = mkdtempSync(path.join(tmpdir(), 'dpr-reader-'));
  // More of them for figures: the first 100 take some minutes.
  const questions = squadQuestions(Number(process.env.DPR_ANSWERS ?? 6)).map(({ text }) => text);
  const depth = 5;
  const dpr = (...words: string[]) => execFileSync(repository('target/release/dpr', 'DPR_BIN'), words, { encoding: 'utf8', maxBuffer: 2 ** 28 });
  try {
    const [model, index] = [repository('data/model', 'DPR_MODEL'), repository('data/index', 'DPR_INDEX')];
    const at = (name: string) => path.join(folder, name);
    cpSync(model, at('model'), { recursive: true });
    const encoder = (name: string) => readFileSync(path.join(model, 'question_encoder', name));
    // A random reader, whose answers are close calls, or a trained one: `cargo xtask quality --only reader` gives it.
    const trained = process.env.DPR_TRAINED_READER;
    if (trained) {
      cpSync(trained, at('reader'), { recursive: true });
    } else {
      const made = readerOf(encoder('config.json'), encoder('model.safetensors'));
      cpSync(path.join(model, 'question_encoder'), at('saved'), { recursive: true });
      writeFileSync(at('saved/config.json'), made.config);
      writeFileSync(at('saved/model.safetensors'), made.weights);
      dpr('import', '--reader', at('saved'), '--out', at('reader'));
    }
    dpr('export-web', '--model', at('model'), '--reader', at('reader'));
    const { bytes } = { bytes: statSync(at('model/web/reader.q8.safetensors')).size };
    console.log(`the reader's 8-bit file has ${bytes} bytes`);
    expect(bytes).toBeLessThanOrEqual(11_000_000);

    writeFileSync(at('questions.txt'), `${questions.join('\n')}\n`);
    const lines = dpr(
      ...['answer', '--model', at('model'), '--reader', at('reader'), '--index', index],
      ...['--device', 'cpu', '--depth', String(depth), '--top', '1', '--questions', at('questions.txt')],
    );
    const expected = lines
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { answers: { answer: string; passage: string }[] }).answers[0]);

    const server = await startServer({ DPR_MODEL: at('model') });
    gateway.serve(server.url);
    try {
      for (const [dtype, least] of [
        ['f32', 0.98],
        ['q8', trained ? 0.95 : 0.6],
      ] as const) {
        await openBlank(page, gateway);
        const got = await page.evaluate(
          async ([questions, depth, dtype]) => {
            const client = await window.dpr.SearchClient.connect('/', { device: 'cpu', dtype });
            const found: { answer: string | undefined; passage: string | undefined; first: string | undefined }[] = [];
            for (const question of questions) {
              const { answers, hits } = await client.answer(question, { depth });
              found.push({ answer: answers[0]?.text, passage: answers[0]?.hit.id, first: hits[0]?.id });
            }
            client.dispose();
            return found;
          },
          [questions, depth, dtype] as const,
        );
        const same = got.filter(({ answer, passage }, at) => answer === expected[at]?.answer && passage === expected[at]?.passage).length;
        console.log(`${dtype}: ${same} of ${questions.length} answers are those of dpr answer`);
        expect(same / questions.length).toBeGreaterThanOrEqual(least);
        // What both share is not downloaded again.
        const weights = gateway.matching('.safetensors').map((request) => request.path.split('/').pop());
        expect(weights).toEqual([expect.stringMatching(/^(model|question_encoder\.q8)\.safetensors$/), `reader.${dtype}.safetensors`]);
        gateway.requests.length = 0;
      }
    } finally {
      gateway.serve(undefined);
      await server.stop();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
