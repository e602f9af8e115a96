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
const MOST = 8_000;

/** Parts in scripts of their own, which a page fetches when it needs them: those of question-encoder.js are for its first search. */
const LAZY = [
  // What every page fetches beside its other work: while the manifest is under way, and once it can search.
  'weights/read-manifest',
  'encoder/later',
  'wire/read-answer',
  // What some pages ask for.
  'encoder/gpu',
  'privacy/privacy',
  'reading/reading',
  'weights/model-files',
  'weights/require-expected',
  'worker/shared-source',
  // What goes wrong.
  'errors/integrity-error',
  'weights/choose-dtype',
  'weights/manifest-note',
  'worker/explain-failure',
];

/** Those of them that every page fetches, and the most bytes after gzip of one script with these too. */
const ALWAYS = LAZY.slice(0, 3);
const MOST_OF_ALL = 10_500;

/** Leaves lazy parts out, but for these, and notes which there are. */
const parts = (seen, inside) => ({
  name: 'parts',
  setup: (build) =>
    build.onResolve({ filter: /^\./ }, ({ path: wanted, kind, resolveDir }) => {
      const part = path.relative(DIST, path.resolve(resolveDir, wanted)).replace(/\.js$/, '');
      if (kind !== 'dynamic-import' || inside.includes(part)) return undefined;
      seen.add(part);
      return { path: wanted, external: true };
    }),
});

/** One script that makes a client and searches, with these parts inside. */
async function script(inside) {
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
    plugins: [parts(seen, ['encoder/question-encoder', ...inside])],
    // Not this package's own, which would add `"use strict"`.
    tsconfigRaw: {},
  });
  assert.deepEqual(warnings, []);
  const [{ inputs }] = Object.values(metafile.outputs);
  const files = Object.entries(inputs).sort(([, a], [, b]) => b.bytesInOutput - a.bytesInOutput);
  return { bytes: gzipSync(outputFiles[0].contents, { level: 9 }).length, files, seen: [...seen].sort() };
}

test('everything that a page runs to search is at most 8 kB in one script, compressed', async (t) => {
  const { bytes, files, seen } = await script([]);
  assert.deepEqual(seen, [...LAZY].sort());
  for (const [name, { bytesInOutput }] of files.slice(0, 40)) t.diagnostic(`${bytesInOutput} bytes before gzip: ${name}`);
  t.diagnostic(`${bytes} bytes after gzip`);
  assert.ok(bytes <= MOST, `${bytes} bytes`);
  // A page can do without the files of workers: they are not in it.
  assert.deepEqual(files.filter(([name]) => /worker\/(serve|engine|wasm-)/.test(name)), []);
});

test('with the scripts that every page fetches beside, it is at most 10.5 kB, compressed', async (t) => {
  const { bytes, seen } = await script(ALWAYS);
  assert.deepEqual(seen, LAZY.filter((name) => !ALWAYS.includes(name)).sort());
  t.diagnostic(`${bytes} bytes after gzip`);
  assert.ok(bytes <= MOST_OF_ALL, `${bytes} bytes`);
});
