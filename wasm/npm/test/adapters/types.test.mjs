import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
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
