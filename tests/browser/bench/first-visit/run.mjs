// The first visit: from the navigation to the first passage found, with nothing in any cache, over a line of 20 Mbit/s
// and with a quarter of the processor, for dpr-web and for what people use in its place.
//
//     node tests/browser/bench/first-visit/run.mjs --model DIR --index DIR --onnx FILE --tokenizer DIR [--rounds N] [--json]
//
// Needs `npm ci` in tests/browser and in tests/browser/bench/peers, and the package built; `cargo xtask bench --only
// first-visit` makes all of that, and the model and index, whose vectors have as many numbers as the peers'.
import { parseArgs } from 'node:util';
import { chromium } from '@playwright/test';
import { median } from '../report.mjs';
import { startSearchServer } from './search-server.mjs';
import { startSite } from './site.mjs';
import { slowDown } from './slow-down.mjs';

const MEGABIT = 1_000_000 / 8;
/** The line: Chromium's emulation reaches the requests of workers too. */
const LINE = { megabits: 20, latencyMs: 40 };
/** How much slower the page's processes are. */
const SLOWER = 4;
const QUESTION = 'who won super bowl 50';
const ENGINES = [
  { name: 'dpr-web q8', page: 'dpr.html' },
  { name: 'dpr-web q4', page: 'dpr.html?dtype=q4' },
  { name: 'transformers.js q8', page: 'transformers.html' },
  { name: 'onnxruntime-web q8', page: 'onnxruntime.html' },
];

const { values: flags } = parseArgs({
  options: {
    model: { type: 'string' },
    index: { type: 'string' },
    onnx: { type: 'string' },
    tokenizer: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    json: { type: 'boolean', default: false },
  },
});

const search = await startSearchServer(flags.model, flags.index);
const site = await startSite({ search: search.url, onnx: flags.onnx, tokenizer: flags.tokenizer });
const runs = new Map(ENGINES.map(({ name }) => [name, []]));
let version;
try {
  for (let round = 0; round < Number(flags.rounds); round++) {
    for (const { name, page } of ENGINES) runs.get(name).push(await visit(page));
  }
} finally {
  await site.close();
  await search.close();
}
const rows = [...runs].map(([name, visits]) => summary(name, visits));
if (flags.json) console.log(JSON.stringify({ chromium: version, line: LINE, slower: SLOWER, question: QUESTION, rows }));
else report(rows);

/** One visit by a browser that was never here. */
async function visit(page) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--headless=new', '--no-sandbox', '--disable-quic', '--disable-background-networking', '--disable-component-update'],
  });
  version = browser.version();
  let stop;
  try {
    const tab = await browser.newPage();
    const errors = [];
    tab.on('pageerror', (error) => errors.push(error.message));
    const session = await tab.context().newCDPSession(tab);
    await session.send('Network.enable');
    const throughput = LINE.megabits * MEGABIT;
    await session.send('Network.emulateNetworkConditions', {
      offline: false,
      latency: LINE.latencyMs,
      downloadThroughput: throughput,
      uploadThroughput: throughput,
    });
    // A renderer of its own, which is there before the page is.
    await tab.goto(`${site.url}blank.html`);
    stop = await slowDown(browser, SLOWER);
    site.reset();
    const address = new URL(page, site.url);
    address.searchParams.set('question', QUESTION);
    address.searchParams.set('model', search.fingerprint);
    await tab.goto(address.href, { waitUntil: 'commit', timeout: 120_000 });
    const found = await tab.waitForFunction(() => window.visit, undefined, { timeout: 240_000, polling: 200 });
    const result = await found.jsonValue();
    if (result.error) throw new Error(`${page}: ${result.error} ${errors.join(' ')}`);
    return { ...result, bytes: site.bytes(), requests: site.requests() };
  } finally {
    stop?.();
    await browser.close();
  }
}

function summary(name, visits) {
  const [{ title }] = visits;
  const of = (key) => median(visits.map((visit) => visit[key]));
  return { name, bytes: of('bytes'), requests: of('requests'), readyMs: of('readyMs'), firstHitMs: of('firstHitMs'), title, visits };
}

/** Prints the table, and the ratios of both of ours to each peer. */
function report([ours, small, ...peers]) {
  console.log(
    `Chromium ${version}, ${LINE.megabits} Mbit/s and ${LINE.latencyMs} ms, processor ${SLOWER}x slower, nothing cached; medians of ${flags.rounds}`,
  );
  console.log(line('', 'MB', 'requests', 'ready s', 'first hit s', 'finds'));
  for (const row of [ours, small, ...peers]) {
    const seconds = (value) => (value / 1000).toFixed(2);
    console.log(line(row.name, (row.bytes / 1e6).toFixed(2), row.requests, seconds(row.readyMs), seconds(row.firstHitMs), row.title));
  }
  for (const peer of peers) {
    if (peer.title !== ours.title) throw new Error(`${peer.name} finds ${peer.title}, ${ours.name} finds ${ours.title}`);
    for (const mine of [ours, small]) {
      const ratio = (key) => (mine[key] / peer[key]).toFixed(2);
      console.log(`ratio ${mine.name} / ${peer.name}: bytes ${ratio('bytes')}, ready ${ratio('readyMs')}, first hit ${ratio('firstHitMs')}`);
    }
  }
}

function line(name, ...cells) {
  return name.padEnd(22) + cells.map((cell) => String(cell).padStart(14)).join('');
}
