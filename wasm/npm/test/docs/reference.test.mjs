import assert from 'node:assert/strict';
import test from 'node:test';
import { read } from './pages.mjs';

test('the reference has every entry of the package that exports something', () => {
  const { exports } = JSON.parse(read('wasm/npm/package.json'));
  const { entryPoints } = JSON.parse(read('wasm/npm/typedoc.json'));
  const entries = Object.values(exports).flatMap(({ types }) => types ?? []);
  const sources = entries.map((file) => file.replace('./dist/', 'src/').replace('.d.ts', '.ts'));
  // Workers export nothing: they are started, not called.
  assert.deepEqual([...entryPoints].sort(), sources.filter((file) => !file.startsWith('src/worker/')).sort());
});
