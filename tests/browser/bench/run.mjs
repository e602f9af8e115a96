// Question latency in Chromium beside onnxruntime-web: one browser run, engines in turns, same token ids.
//
//     node tests/browser/bench/run.mjs [--json] [--skip-webgpu] [--litert | --small MODEL] [--runs N]
//
// Needs `cargo xtask npm`, data/model with its web exports, and target/bench/model{,.int8}.onnx
// (tests/bench/export_onnx.py); `cargo xtask bench` makes all of them. With `--litert`, the only peer is LiteRT.js, at
// the lengths of a question and of a passage; that needs target/bench/litert (tests/bench/export_encoders.py) and
// `npm ci` in tests/browser/bench/peers. With `--small`, what is measured is the question encoder of that model directory
// in 4 bits (`dpr export-web --dtype q4`), beside data/model's own in 8.
import { readFileSync } from 'node:fs';
import { chromium } from '@playwright/test';
import { LEARNED, report, summarize, summarizeReading } from './report.mjs';
import { fileServer, repository } from './server.mjs';

const RUNS = 200;
const WARM_UP = 40;
// Software WebGPU takes a second or more for each.
const WEBGPU_RUNS = 5;
const WEBGPU_WARM_UP = 2;
const TOKENS = 16;
const PASSAGE_TOKENS = 160;
const PASSAGE_RUNS = 40;
const READING_RUNS = 5;

const flags = process.argv.slice(2);
const asJson = flags.includes('--json');
const runs = flags.includes('--runs') ? Number(flags[flags.indexOf('--runs') + 1]) : RUNS;

const small = flags.includes('--small') && flags[flags.indexOf('--small') + 1];
if (small === undefined) throw new Error('--small needs a model directory with weights in 4 bits');

const question = sixteenTokens();
const server = await fileServer(small ? { '/small/': `${small}/` } : {});
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--headless=new',
    '--no-sandbox',
    '--disable-quic',
    '--disable-background-networking',
    '--disable-component-update',
    '--enable-unsafe-webgpu',
    '--use-webgpu-adapter=swiftshader',
    '--enable-features=Vulkan',
  ],
});
try {
  const result = await (flags.includes('--litert') ? besideLitert() : small ? besideModel() : besideOnnxruntime());
  console.log(asJson ? JSON.stringify(result, null, 2) : report(result));
} finally {
  await browser.close();
  await server.close();
}

/**
 * Questions on the CPU and by WebGPU, and re-ranking, beside onnxruntime-web; each in a page of its own, without the
 * others' heap.
 */
async function besideOnnxruntime() {
  const plan = { question, tokens: TOKENS, runs, warmUp: WARM_UP };
  const result = { chromium: browser.version(), tokens: TOKENS, question, cpu: summarize(await inPage('bench.html', 'measureCpu', plan)) };
  if (!flags.includes('--skip-webgpu')) {
    const gpuPlan = { ...plan, runs: WEBGPU_RUNS, warmUp: WEBGPU_WARM_UP };
    result.webgpu = summarize(await inPage('bench.html', 'measureWebgpu', gpuPlan));
  }
  // The first run of each engine has the model's loading in it.
  result.reading = summarizeReading(await inPage('bench.html', 'measureReading', { question, runs: READING_RUNS }));
  return result;
}

/** Questions and passages on the CPU beside LiteRT.js. */
async function besideLitert() {
  const plan = { question, tokens: TOKENS, runs, warmUp: WARM_UP };
  const passagePlan = { tokens: PASSAGE_TOKENS, runs: Math.min(runs, PASSAGE_RUNS), warmUp: WARM_UP };
  const cpu = summarize(await inPage('litert.html', 'measureLitert', plan));
  const passage = summarize(await inPage('litert.html', 'measureLitert', passagePlan));
  return { chromium: browser.version(), tokens: TOKENS, question, cpu, passage: { tokens: PASSAGE_TOKENS, ...passage } };
}

/** Questions of a smaller encoder beside those of the model that it learned from. */
async function besideModel() {
  const cpu = summarize(await inPage('bench.html', 'measureSmall', { question, tokens: TOKENS, runs, warmUp: WARM_UP }), LEARNED);
  return { chromium: browser.version(), tokens: TOKENS, question, cpu };
}

/** What a function of a page returns for a plan. */
async function inPage(file, name, plan) {
  const page = await browser.newPage();
  // LiteRT.js logs what it does as errors.
  const isError = (message) => message.type() === 'error' && !/^(INFO|WARNING):/.test(message.text());
  page.on('console', (message) => isError(message) && console.error(`page: ${message.text()}`));
  await page.goto(`${server.url}/${file}`);
  const result = await page.evaluate(([name, plan]) => window[name](plan), [name, plan]);
  await page.close();
  return result;
}

/** A SQuAD question of that many tokens, special ones counted, out of the golden file. */
function sixteenTokens() {
  const golden = JSON.parse(readFileSync(repository('tests/fixtures/minilm/golden.json'), 'utf8'));
  const position = golden.question_tokens.findIndex((tokens) => (Array.isArray(tokens) ? tokens.length : tokens) === TOKENS);
  return golden.questions[position];
}
