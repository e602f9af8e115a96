// Question latency in Chromium beside onnxruntime-web: one browser run, engines in turns, same token ids.
//
//     node tests/browser/bench/run.mjs [--json] [--skip-webgpu] [--runs N]
//
// Needs `cargo xtask npm`, data/model with its web exports, and target/bench/model{,.int8}.onnx
// (tests/bench/export_onnx.py); `cargo xtask bench` makes all of them.
import { readFileSync } from 'node:fs';
import { chromium } from '@playwright/test';
import { report, summarize, summarizeReading } from './report.mjs';
import { fileServer, repository } from './server.mjs';

const RUNS = 200;
const WARM_UP = 40;
// Software WebGPU takes a second or more for each.
const WEBGPU_RUNS = 5;
const WEBGPU_WARM_UP = 2;
const TOKENS = 16;
const READING_RUNS = 5;

const flags = process.argv.slice(2);
const asJson = flags.includes('--json');
const runs = flags.includes('--runs') ? Number(flags[flags.indexOf('--runs') + 1]) : RUNS;

const question = sixteenTokens();
const server = await fileServer();
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
  const page = await browser.newPage();
  page.on('console', (message) => message.type() === 'error' && console.error(`page: ${message.text()}`));
  await page.goto(`${server.url}/bench.html`);
  const plan = { question, tokens: TOKENS, runs, warmUp: WARM_UP };
  const cpu = await page.evaluate((plan) => window.measureCpu(plan), plan);
  const result = { chromium: browser.version(), tokens: TOKENS, question, cpu: summarize(cpu) };
  if (!flags.includes('--skip-webgpu')) {
    // A page of its own: its engines find no heap of the others.
    const second = await browser.newPage();
    await second.goto(`${server.url}/bench.html`);
    const gpuPlan = { ...plan, runs: WEBGPU_RUNS, warmUp: WEBGPU_WARM_UP };
    result.webgpu = summarize(await second.evaluate((plan) => window.measureWebgpu(plan), gpuPlan));
  }
  // A page of its own again; the first run of each engine has the model's loading in it.
  const third = await browser.newPage();
  third.on('console', (message) => message.type() === 'error' && console.error(`page: ${message.text()}`));
  await third.goto(`${server.url}/bench.html`);
  result.reading = summarizeReading(await third.evaluate((plan) => window.measureReading(plan), { question, runs: READING_RUNS }));
  console.log(asJson ? JSON.stringify(result, null, 2) : report(result));
} finally {
  await browser.close();
  await server.close();
}

/** A SQuAD question of that many tokens, special ones counted, out of the golden file. */
function sixteenTokens() {
  const golden = JSON.parse(readFileSync(repository('tests/fixtures/minilm/golden.json'), 'utf8'));
  const position = golden.question_tokens.findIndex((tokens) => (Array.isArray(tokens) ? tokens.length : tokens) === TOKENS);
  return golden.questions[position];
}
