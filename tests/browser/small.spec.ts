import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ask, expect, openBlank, openDemo, ready, test } from './support/fixtures.ts';
import { repository } from './support/paths.ts';
import { startServer } from './support/serve.ts';
import { squadQuestions } from './support/squad.ts';

const QUESTION = 'who won super bowl 50';
const folder = mkdtempSync(path.join(tmpdir(), 'dpr-small-'));
const student = path.join(folder, 'run/best');
let server: Awaited<ReturnType<typeof startServer>>;

/** A student of half the layers, distilled for 15 steps: near enough to its teacher to find something. */
test.beforeAll(async () => {
  test.setTimeout(300_000);
  const dpr = (...words: string[]) => execFileSync(repository('target/release/dpr', 'DPR_BIN'), words, { stdio: ['ignore', 'ignore', 'inherit'] });
  const model = repository('data/model', 'DPR_MODEL');
  const questions = path.join(folder, 'questions.txt');
  const texts = squadQuestions(10_570).filter((_, at) => at % 20 === 0).map(({ text }) => text);
  writeFileSync(questions, `${[...new Set(texts)].join('\n')}\n`);
  const start = path.join(folder, 'start');
  const tokens = ['--keep-tokens', questions, '--most-tokens', '4000', '--max-tokens', '64'];
  dpr('shrink', '--model', model, '--layers', '3', ...tokens, '--out', start);
  const run = ['--device', 'cpu', '--batch-size', '32', '--max-steps', '15', '--warm-up', '5', '--out', path.join(folder, 'run')];
  dpr('distill', '--teacher', model, '--model', start, '--questions', questions, ...run);
  dpr('export-web', '--model', student, '--dtype', 'q4');
  server = await startServer({ more: ['--small', student] });
});
test.afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});
test.beforeEach(({ gateway }) => gateway.serve(server.url));
test.afterEach(({ gateway }) => gateway.serve(undefined));

test('a page searches the same index with the small encoder, and downloads nothing of the other', async ({ page, gateway }) => {
  await openBlank(page, gateway);
  const got = await page.evaluate(async (question) => {
    const client = await window.dpr.SearchClient.connect('/', { device: 'cpu', encoder: 'small' });
    const { hits } = await client.search(question, { k: 10 });
    const { dtype, model } = client;
    client.dispose();
    return { titles: hits.map(({ title }) => title), dtype, fingerprint: model.fingerprint };
  }, QUESTION);
  expect(got.dtype).toBe('q4');
  expect(got.titles).toContain('Super Bowl 50');
  const weights = gateway.matching('.safetensors').map((request) => request.path.split('/').pop());
  expect(weights).toEqual(['question_encoder.q4.safetensors']);
  const sent = gateway.matching('/v1/search').map(({ body }) => JSON.parse(body.toString()) as { model: string });
  expect(sent).toEqual([expect.objectContaining({ model: got.fingerprint })]);
  expect(gateway.matching('/v1/search')[0]!.body.toString()).not.toContain('super');
});

test('the page offers the small encoder, compares it, and keeps the choice in its address', async ({ page, gateway }) => {
  // A software adapter would take most of the time.
  await page.addInitScript(() => Object.defineProperty(navigator, 'gpu', { value: undefined }));
  await openDemo(page, gateway);
  await ready(page);
  await page.getByRole('combobox', { name: 'Encoder' }).selectOption('Small');
  await expect(page).toHaveURL(/encoder=small/);
  await ready(page);
  await ask(page, QUESTION);
  await expect(page.locator('.result')).toHaveCount(10);
  expect(gateway.matching('/v1/model/small').length).toBe(1);
  await page.locator('#compare summary').click();
  await page.locator('#compare-start').click();
  await expect(page.locator('#compare-state')).toHaveText(/The small encoder: \d+ of 10 passages in common with the CPU in 8 bits/, { timeout: 100_000 });
  const heads = await page.locator('#compare-names th').allTextContents();
  expect(heads).toEqual(['CPU, 8 bits', 'CPU, 4 bits', 'CPU, small encoder', 'WebGPU']);
  const cells = await page.locator('#compare-rows tr', { hasText: 'Weights' }).locator('td').allTextContents();
  const [eight, four, small] = cells.map(Number.parseFloat);
  expect(small!).toBeLessThan(four!);
  expect(four!).toBeLessThan(eight!);
  await page.reload();
  await ready(page);
  await expect(page.getByRole('combobox', { name: 'Encoder' })).toHaveValue('small');
});
