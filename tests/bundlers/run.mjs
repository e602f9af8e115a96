// Runs the cases: each installs the packed `dpr-web` into a project, builds it with the real tool, and asks the page.
//
//     node tests/bundlers/run.mjs [--short] [--only NAME]… [--browser firefox] [--list] [--json FILE]
//
// `--only` takes the name of a case, or what its name begins with. `DPR_WEB_TARBALL` names another tarball.
import { existsSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { CASES } from './cases/index.mjs';
import { BROWSERS } from './support/browsers.mjs';
import { startServer } from './support/dpr-server.mjs';
import { Job } from './support/job.mjs';
import { newerNode } from './support/node.mjs';
import { TARBALL } from './support/project.mjs';
import { HEAD, rowOf, table } from './support/table.mjs';

const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    browser: { type: 'string', default: 'chromium' },
    only: { type: 'string', multiple: true },
    list: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
});

const named = (only) => (name) => name === only || (name.startsWith(only) && !CASES.some((one) => one.name === only));
for (const only of values.only ?? []) {
  if (!CASES.some(({ name }) => named(only)(name))) fail(`no case is called ${only}; --list names them`);
}
if (!Object.hasOwn(BROWSERS, values.browser))
  fail(`no browser is called ${values.browser}; there are ${Object.keys(BROWSERS).join(', ')}`);
const isMeant = ({ short, firefox }) => (short || !values.short) && (firefox || values.browser !== 'firefox');
const chosen = CASES.filter((one) => (values.only ? values.only.some((only) => named(only)(one.name)) : isMeant(one)));

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
  const [browser, server] = await Promise.all([BROWSERS[values.browser](), startServer()]);
  const results = [];
  for (const one of chosen) {
    const result = await runOne(one, { browser, server });
    results.push(result);
    console.log(`${result.wrong ? 'FAILED' : 'passed'} ${one.name} (${result.whole.toFixed(1)} s)`);
    if (result.wrong) console.log(`${result.wrong}\n`);
  }
  await Promise.all([browser.close(), server.stop()]);
  console.log(`\n${values.browser} ${browser.version}\n${table(HEAD, results.map(rowOf))}\n`);
  if (values.json) writeFileSync(values.json, `${JSON.stringify(results, undefined, 2)}\n`);
  const failed = results.filter(({ wrong }) => wrong).length;
  console.log(`bundlers: ${results.length - failed} passed, ${failed} failed`);
  return failed > 0 ? 1 : 0;
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
