import assert from 'node:assert/strict';
import path from 'node:path';
import test from 'node:test';
import { gzipSync } from 'node:zlib';
import { fileURLToPath } from 'node:url';
import esbuild from 'esbuild';

const DIST = fileURLToPath(new URL('../dist', import.meta.url));

/**
 * Most bytes after gzip of one script with everything that a page runs to make a client, load a model and search: without
 * the workers' scripts and modules. What grows beyond it belongs into a worker, or into a script of its own.
 */
const MOST = 10_000;

/** Parts in scripts of their own, which a page fetches when it needs them: those of question-encoder.js are for its first search. */
const LAZY = [
  'encoder/gpu',
  'encoder/later',
  'privacy/privacy',
  'reading/reading',
  'weights/model-files',
  'weights/require-expected',
  'worker/shared-source',
];

/** Leaves lazy parts out, and notes which there are. */
const parts = (seen) => ({
  name: 'parts',
  setup: (build) =>
    build.onResolve({ filter: /^\./ }, ({ path: wanted, kind, resolveDir }) => {
      if (kind !== 'dynamic-import' || wanted.endsWith('/question-encoder.js')) return undefined;
      seen.add(path.relative(DIST, path.resolve(resolveDir, wanted)).replace(/\.js$/, ''));
      return { path: wanted, external: true };
    }),
});

test('everything that a page runs to search is at most 10 kB in one script, compressed', async (t) => {
  const seen = new Set();
  const { outputFiles, metafile, warnings } = await esbuild.build({
    stdin: { contents: "export { SearchClient } from 'dpr-web';", resolveDir: fileURLToPath(new URL('..', import.meta.url)) },
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    metafile: true,
    write: false,
    logLevel: 'silent',
    plugins: [parts(seen)],
    // Not this package's own, which would add `"use strict"`.
    tsconfigRaw: {},
  });
  assert.deepEqual(warnings, []);
  assert.deepEqual([...seen].sort(), LAZY);
  const [{ inputs }] = Object.values(metafile.outputs);
  const files = Object.entries(inputs).sort(([, a], [, b]) => b.bytesInOutput - a.bytesInOutput);
  for (const [name, { bytesInOutput }] of files.slice(0, 40)) t.diagnostic(`${bytesInOutput} bytes before gzip: ${name}`);
  const bytes = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  t.diagnostic(`${bytes} bytes after gzip`);
  assert.ok(bytes <= MOST, `${bytes} bytes`);
  // A page can do without the files of workers: they are not in it.
  assert.deepEqual(files.filter(([name]) => /worker\/(serve|engine|wasm-)/.test(name)), []);
});
