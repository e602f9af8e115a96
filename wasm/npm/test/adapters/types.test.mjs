import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const TSC = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url));
const CONSUMER = fileURLToPath(new URL('consumer.ts', import.meta.url));
const OPTIONS = ['--ignoreConfig', '--noEmit', '--strict', '--exactOptionalPropertyTypes', '--target', 'es2022', '--types', 'node', '--lib', 'es2022,dom,dom.iterable'];

test('the types of all entries hold where they are used, without `skipLibCheck`', () => {
  const module = ['--module', 'nodenext', '--moduleResolution', 'nodenext', '--pretty', 'false'];
  const { stdout, stderr } = spawnSync(process.execPath, [TSC, ...OPTIONS, ...module, CONSUMER], { encoding: 'utf8' });
  assert.equal(stderr, '');
  // Frameworks have types of their own, which are not ours to mend.
  assert.deepEqual(stdout.split('\n').filter((line) => /error/.test(line) && !/node_modules\//.test(line)), []);
});

/** What TypeScript has from 5.7 on alone. */
const GENERIC = /\b(Uint8|Uint32|Float32|Float64)Array</;

test('no type of an entry reaches a typed array with a parameter, which TypeScript before 5.7 refuses', () => {
  const folder = fileURLToPath(new URL('../..', import.meta.url));
  const { exports } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
  const entries = Object.values(exports).flatMap(({ types }) => (types ? [path.join(folder, types)] : []));
  const files = new Set(entries);
  for (const file of files) {
    for (const [, to] of readFileSync(file, 'utf8').matchAll(/\b(?:from|import)[ (]*'(\.[^']+)\.js'/g)) {
      files.add(path.join(path.dirname(file), `${to}.d.ts`));
    }
  }
  assert.ok(files.size > 40, `${files.size} files`);
  assert.deepEqual([...files].filter((file) => GENERIC.test(readFileSync(file, 'utf8'))).map((file) => path.relative(folder, file)), []);
});
