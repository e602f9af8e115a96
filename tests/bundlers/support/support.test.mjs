// What the cases rely on: that a wrong page is found out.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { request as send } from 'node:http';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { browsersOf, CASES } from '../cases/index.mjs';
import { judge } from './browser.mjs';
import { startServer } from './dpr-server.mjs';
import { leaks, leaksOf, unrecorded } from './leaks.mjs';
import { isWhole, TEMPLATES } from './project.mjs';
import { nearest, QUESTIONS } from './questions.mjs';
import { startRecorder } from './recorder.mjs';
import { startSite } from './site.mjs';
import { run } from './tools.mjs';

const [{ text, vector }] = QUESTIONS;

test('a question is found in addresses, bodies and base64, whole or a word of it', () => {
  for (const sent of [
    `GET /log?q=${encodeURIComponent(text)}`,
    `GET /log?${new URLSearchParams({ q: text })}`,
    '{"typed":"tesla"}',
    `{"body":"${Buffer.from(`{"q":"${text}"}`).toString('base64')}"}`,
    `{"body":"${Buffer.from('xresearch on').toString('base64')}"}`,
  ]) {
    assert.notDeepEqual(leaks(sent, text), [], sent);
  }
  const base64 = Buffer.from(Float32Array.from(vector).buffer).toString('base64');
  const vectorAlone = `POST /v1/search\n{"vector":"${base64}","k":5}`;
  assert.deepEqual(leaks(vectorAlone, text), []);
});

test('the page itself may be asked for by its address with the question, and nothing else may hold it', () => {
  const address = `http://127.0.0.1:1/?${new URLSearchParams({ q: text })}`;
  const sent = (what, head = '', headers = {}) => leaksOf({ what, head, headers, body: '' }, { address, question: text });
  assert.deepEqual(sent(`GET ${address}`, 'Host\n127.0.0.1:1', { 'sec-fetch-mode': 'navigate' }), []);
  assert.equal(sent(`GET ${address}`, `Referer\n${address}`).length, 1);
  assert.equal(sent(`GET ${address}`, '', { 'sec-fetch-mode': 'cors' }).length, 1);
  assert.equal(sent(`GET ${address}&_rsc=1`).length, 1);
  assert.equal(sent('GET http://127.0.0.1:1/main.js', `Referer\n${address}`).length, 1);
});

test('a browser’s requests are kept by the recorder with head and body, also those that it passes on to nobody', async (t) => {
  const [server, recorder] = [await startServer(), await startRecorder()];
  t.after(() => Promise.all([server.stop(), recorder.stop()]));
  const [host, port] = recorder.address.split(':');
  const through = (url, options = {}) =>
    new Promise((resolve, reject) => {
      const request = send({ host, port, path: url, headers: { referer: 'page' }, ...options }, async (answer) => {
        const chunks = [];
        for await (const chunk of answer) chunks.push(chunk);
        resolve({ status: answer.statusCode, text: Buffer.concat(chunks).toString() });
      });
      request.on('error', reject);
      request.end(options.body);
    });
  const { status, text: model } = await through(`${server.url}v1/model`);
  assert.equal(status, 200);
  assert.equal(model, await (await fetch(new URL('v1/model', server.url))).text());
  assert.equal((await through('http://search.test/', { method: 'POST', body: text })).status, 502);
  assert.deepEqual(recorder.requests.map(({ what }) => what), [`GET ${server.url}v1/model`, 'POST http://search.test/']);
  assert.match(recorder.requests[0].head, /referer\npage/);
  assert.equal(recorder.requests[1].body, text);
  assert.deepEqual(recorder.elsewhere, ['POST http://search.test/']);
  // The second one went to the server without it.
  assert.deepEqual(unrecorded(server.requests), ['a request went around the recorder: GET /v1/model']);
});

test('five pages are for every browser, and the short set asks two of them in Firefox and one in WebKit', () => {
  const names = (browser, isShort) =>
    CASES.filter((one) => browsersOf(one, [browser], isShort).length > 0).map(({ name }) => name);
  for (const browser of ['firefox', 'webkit']) {
    assert.deepEqual(names(browser, false), ['vite-8', 'webpack-5', 'parcel-2', 'plain-page', 'csp']);
  }
  assert.deepEqual(names('firefox', true), ['vite-8', 'plain-page']);
  assert.deepEqual(names('webkit', true), ['plain-page']);
  assert.equal(names('chromium', false).length, CASES.length);
});

test('a page with the wrong vector, passage or device, or with two searches, is wrong', () => {
  const hits = nearest(vector, 5).map(({ title }) => title);
  const said = { state: 'answered on cpu', hits };
  const other = { text, vector: QUESTIONS[1].vector };
  assert.deepEqual(judge(said, 'cpu', QUESTIONS[0], [vector]), []);
  assert.match(judge(said, 'webgpu', QUESTIONS[0], [vector]).join(), /the page says/);
  assert.match(judge({ ...said, hits: [...hits].reverse() }, 'cpu', QUESTIONS[0], [vector]).join(), /first of 5/);
  assert.match(judge(said, 'cpu', QUESTIONS[0], [vector, vector]).join(), /2 searches/);
  assert.match(judge(said, 'cpu', QUESTIONS[0], [other.vector]).join(), /cosine/);
});

test('the server finds what Python finds, and refuses another model', async (t) => {
  const server = await startServer();
  t.after(() => server.stop());
  const search = (model) =>
    fetch(new URL('/v1/search', server.url), {
      method: 'POST',
      body: JSON.stringify({ vector: Buffer.from(Float32Array.from(vector).buffer).toString('base64'), k: 3, model }),
    });
  const { fingerprint, weights } = await (await fetch(new URL('/v1/model', server.url))).json();
  const { hits } = await (await search(fingerprint)).json();
  assert.deepEqual(hits, nearest(vector, 3));
  assert.equal((await search('0'.repeat(64))).status, 409);
  assert.equal((await (await fetch(new URL(weights.q8.url, server.url))).arrayBuffer()).byteLength, weights.q8.bytes);
});

test('a host serves its folder below its path with its headers, and nothing beside it', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'dpr-site-'));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(path.join(folder, 'site'));
  writeFileSync(path.join(folder, 'secret.js'), '');
  writeFileSync(path.join(folder, 'site/index.html'), '<p>here</p>');
  const site = await startSite(path.join(folder, 'site'), { base: '/sub/', headers: { 'x-policy': 'none' } });
  t.after(() => site.stop());
  const page = await fetch(site.url);
  assert.deepEqual([page.status, page.headers.get('x-policy'), await page.text()], [200, 'none', '<p>here</p>']);
  for (const wrong of ['/', '/sub/%2e%2e/secret.js', '/sub/none.js']) {
    assert.equal((await fetch(new URL(wrong, site.url))).status, 404, wrong);
  }
});

test('a tool that fails is named with what it printed, and one that is not there with its name', async () => {
  const command = ['node', '-e', 'console.log("read me"); process.exit(3)'];
  await assert.rejects(
    run(tmpdir(), command),
    ({ message }) => /ended with 3/.test(message) && /^read me$/m.test(message),
  );
  await assert.rejects(run(tmpdir(), ['no-such-bundler']), /no-such-bundler.*could not be started/);
});

test('a runner that is ended ends what it runs', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'dpr-runner-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const said = path.join(folder, 'pid');
  writeFileSync(
    path.join(folder, 'server.mjs'),
    "import { renameSync, writeFileSync } from 'node:fs';\nwriteFileSync('next', String(process.pid));\n" +
      "renameSync('next', 'pid');\nsetInterval(() => {}, 1000);\n",
  );
  const tools = new URL('tools.mjs', import.meta.url).href;
  const script = `import { serve } from '${tools}'; await serve('.', ['node', 'server.mjs'], 'http://127.0.0.1:1/');`;
  const runner = spawn(process.execPath, ['--input-type=module', '--eval', script], { cwd: folder, stdio: 'inherit' });
  const ended = once(runner, 'exit');
  while (!existsSync(said)) await setTimeout(20);
  const pid = Number(readFileSync(said, 'utf8'));
  assert.ok(isRunning(pid));
  runner.kill('SIGTERM');
  assert.deepEqual(await ended, [143, null]);
  for (let turn = 0; turn < 250 && isRunning(pid); turn++) await setTimeout(20);
  assert.ok(!isRunning(pid));
});

function isRunning(pid) {
  // One that has ended stays in the list until somebody asks how.
  const state = existsSync(`/proc/${pid}/stat`) && readFileSync(`/proc/${pid}/stat`, 'utf8');
  if (state) return !/\) Z/.test(state);
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test('a lock file without the packages of some platforms is told from a whole one', () => {
  const packages = { '': {}, 'node_modules/a': { optionalDependencies: { b: '1.0.0' } } };
  assert.equal(isWhole({ packages }), false);
  assert.equal(isWhole({ packages: { ...packages, 'node_modules/a/node_modules/b': {} } }), true);
});

test('each case has a name of its own and a template with a lock file and exact versions', () => {
  assert.equal(new Set(CASES.map(({ name }) => name)).size, CASES.length);
  for (const { name, template, sources = [] } of CASES) {
    for (const folder of [template, ...sources])
      assert.ok(existsSync(path.resolve(TEMPLATES, folder)), `${name}: ${folder}`);
    const { dependencies = {} } = JSON.parse(readFileSync(path.join(TEMPLATES, template, 'package.json'), 'utf8'));
    const { packages } = JSON.parse(readFileSync(path.join(TEMPLATES, template, 'package-lock.json'), 'utf8'));
    for (const [dependency, version] of Object.entries(dependencies)) {
      assert.match(version, /^(npm:[\w@/-]+@)?\d+\.\d+\.\d+$/, `${template}: ${dependency}`);
      assert.ok(packages[`node_modules/${dependency}`]?.integrity, `${template}: ${dependency} has no hash`);
    }
  }
});

test('the guides name each case with the versions that it installs', () => {
  const guide = ['bundlers', 'frameworks'].flatMap((page) =>
    readFileSync(new URL(`../../../docs/guide/${page}.md`, import.meta.url), 'utf8').split('\n\n'),
  );
  for (const { name, template, packages = [] } of CASES) {
    const said = guide
      .flatMap((part) => (part.startsWith('|') ? part.split('\n') : [part]))
      .filter((part) => part.includes(`\`${name}\``));
    assert.ok(said.length > 0, name);
    const lock = JSON.parse(readFileSync(path.join(TEMPLATES, template, 'package-lock.json'), 'utf8')).packages;
    for (const each of packages.filter((each) => each !== 'dpr-web')) {
      const { version } = lock[`node_modules/${each}`];
      assert.ok(
        said.some((part) => part.includes(version)),
        `${name}: ${each} ${version}`,
      );
    }
  }
});
