// Runs the cases: each installs the packed `dpr-web` into a project, builds it with the real tool, and asks the page.
//
//     node tests/bundlers/run.mjs [--short] [--only NAME]… [--browser NAME]… [--list] [--json FILE]
//
// `--only` takes the name of a case, or what its name begins with. Browsers are `chromium`, which is asked when none is
// named, `firefox` and `webkit`. `DPR_WEB_TARBALL` names another tarball.
import { existsSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { browsersOf, CASES } from './cases/index.mjs';
import { BROWSERS } from './support/browsers.mjs';
import { startServer } from './support/dpr-server.mjs';
import { Job } from './support/job.mjs';
import { newerNode } from './support/node.mjs';
import { TARBALL } from './support/project.mjs';
import { startRecorder } from './support/recorder.mjs';
import { HEAD, rowOf, table } from './support/table.mjs';

const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    browser: { type: 'string', multiple: true, default: ['chromium'] },
    only: { type: 'string', multiple: true },
    list: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
});

const named = (only) => (name) => name === only || (name.startsWith(only) && !CASES.some((one) => one.name === only));
for (const only of values.only ?? []) {
  if (!CASES.some(({ name }) => named(only)(name))) fail(`no case is called ${only}; --list names them`);
}
for (const name of values.browser) {
  if (!Object.hasOwn(BROWSERS, name)) fail(`no browser is called ${name}; there are ${Object.keys(BROWSERS).join(', ')}`);
}
/** Who names cases gets them in the browsers that are named. */
const browsersFor = (one) => {
  if (!values.only) return browsersOf(one, values.browser, values.short);
  return values.only.some((only) => named(only)(one.name)) ? values.browser : [];
};
const chosen = CASES.map((one) => ({ one, names: browsersFor(one) })).filter(({ names }) => names.length > 0);

if (values.list) {
  for (const { name, short, about } of CASES) console.log(`${name.padEnd(26)} ${short ? 'short' : '     '} ${about}`);
} else if (existsSync(TARBALL)) {
  process.exitCode = await runAll();
} else {
  fail(`there is no ${TARBALL}; \`cargo xtask npm\` makes it`);
}

function fail(message) {
  console.error(message);
  process.exit(2);
}

async function runAll() {
  const [server, ...browsers] = await Promise.all([startServer(), ...values.browser.map(startBrowser)]);
  const results = [];
  for (const { one, names } of chosen) {
    const asked = browsers.filter(({ name }) => names.includes(name));
    const result = { ...(await runOne(one, { browsers: asked, server })), browsers: names };
    results.push(result);
    console.log(`${result.wrong ? 'FAILED' : 'passed'} ${one.name} (${result.whole.toFixed(1)} s)`);
    if (result.wrong) console.log(`${result.wrong}\n`);
  }
  const versions = browsers.map(({ browser }) => browser.version).join(', ');
  await Promise.all([...browsers.map(({ stop }) => stop()), server.stop()]);
  console.log(`\n${versions}\n${table(HEAD, results.map(rowOf))}\n`);
  if (values.json) writeFileSync(values.json, `${JSON.stringify(results, undefined, 2)}\n`);
  const failed = results.filter(({ wrong }) => wrong).length;
  console.log(`bundlers: ${results.length - failed} passed, ${failed} failed; ${versions}`);
  return failed > 0 ? 1 : 0;
}

/** Starts a browser with a recorder of its own, that all of its requests go through. */
async function startBrowser(name) {
  const recorder = await startRecorder();
  const browser = await BROWSERS[name](recorder);
  const stop = async () => {
    await browser.close();
    await recorder.stop();
  };
  return { name, browser, recorder, stop };
}

async function runOne({ name, packages = [], node, run, ...project }, shared) {
  const start = performance.now();
  const result = { name, versions: '' };
  let job;
  try {
    const first = node ? [await newerNode(node)] : [];
    job = await Job.of(project, { ...shared, first });
    result.versions = packages.map((each) => `${each} ${job.version(each)}`).join(', ');
    await run(job);
  } catch (error) {
    result.wrong = error.message;
  } finally {
    await job?.stop();
  }
  return { ...result, seconds: job?.seconds, size: job?.size, whole: (performance.now() - start) / 1000 };
}
