import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { CASES } from '../../../../tests/bundlers/cases/index.mjs';
import { read, ROOT } from './pages.mjs';

const PAGE = 'docs/reference/defects.md';
/** Rows of the review's tables: a letter and the number of its rows. `D` has no numbers. */
const ROWS = { A: 10, B: 14, C: 10 };
/** Where tests are, and the names of their files. */
const TESTS = [
  ['wasm/npm/test', /\.test\.mjs$/],
  ['tests/browser', /\.spec\.ts$/],
  ['tests/bundlers/support', /\.test\.mjs$/],
  ['server/serve', /\.rs$/],
  ['server/tests', /\.rs$/],
];

/** The rows of the page's tables: name, columns of text, and the tests that are named. */
function rows(text) {
  return text
    .split('\n')
    .filter((line) => /^\| [A-D](\d| )/.test(line))
    .map((line) => {
      const [name, before, now, held] = line.split(' | ').map((cell) => cell.replace(/^\| | \|$/g, '').trim());
      const tests = [...(held ?? '').matchAll(/(`+)(.+?)\1(?!`)/g)].map(([, , title]) => title.trim());
      return { name, before, now, tests };
    });
}

/** The titles of all tests as their files have them, and `case NAME` of each case of the bundler tests. */
function titles() {
  const found = new Set(CASES.map(({ name }) => `case ${name}`));
  for (const [folder, names] of TESTS) {
    const files = readdirSync(path.join(ROOT, folder), { recursive: true }).map((file) => file.replaceAll('\\', '/'));
    for (const file of files.filter((file) => names.test(file) && !file.includes('node_modules'))) {
      const text = read(`${folder}/${file}`);
      const calls = /^\s*test\((['"`])((?:\\.|(?!\1).)+)\1/gm;
      for (const [, , title] of text.matchAll(calls)) found.add(title.replace(/\\(['"`])/g, '$1'));
      for (const [, title] of text.matchAll(/#\[(?:tokio::)?test[^\n]*\]\s+(?:async )?fn (\w+)/g)) found.add(title);
    }
  }
  return found;
}

/** What is wrong with the page. */
function problems(text, known) {
  const found = rows(text);
  const wanted = Object.entries(ROWS).flatMap(([letter, count]) =>
    Array.from({ length: count }, (_, at) => `${letter}${at + 1}`),
  );
  const count = (name) => found.filter((row) => row.name === name).length;
  return [
    ...wanted.filter((name) => count(name) !== 1).map((name) => `${name} has ${count(name)} rows`),
    ...(found.some(({ name }) => name.startsWith('D ')) ? [] : ['D has no row']),
    ...found.flatMap(({ name, before, now, tests }) => [
      ...(before && now ? [] : [`${name} does not say what was and what is`]),
      ...(tests.length > 0 ? [] : [`${name} names no test`]),
      ...tests.filter((title) => !known.has(title)).map((title) => `${name}: there is no test "${title}"`),
    ]),
  ];
}

test('each defect of the review has a row with its result before and now, and tests that exist', () => {
  assert.deepEqual(problems(read(PAGE), titles()), []);
});

test('a row that is missing, that names no test, or one that does not exist is found', () => {
  const known = titles();
  assert.ok(known.size > 500, `${known.size} titles`);
  const wrong = (change) => problems(change(read(PAGE)), known);
  assert.deepEqual(wrong((text) => text.replace(/^\| B3 .*\n/m, '')), ['B3 has 0 rows']);
  assert.deepEqual(wrong((text) => text.replace('`case trusted-types`', '`case trusting-types`')), ['C6: there is no test "case trusting-types"']);
  assert.deepEqual(wrong((text) => text.replace(/^(\| B14 .*) \| `.*` \|$/m, '$1 | somewhere |')), ['B14 names no test']);
});
