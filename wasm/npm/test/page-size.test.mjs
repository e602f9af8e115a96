import assert from 'node:assert/strict';
import test from 'node:test';
import { gzipSync } from 'node:zlib';
import { fileURLToPath } from 'node:url';
import esbuild from 'esbuild';

/**
 * Most bytes after gzip of one script with everything that a page runs to make a client, load a model and search: without
 * the workers' scripts and modules. What grows beyond it belongs into a worker, or into a script of its own.
 */
const MOST = 12_000;

test('everything that a page runs to search is at most 12 kB in one script, compressed', async (t) => {
  const { outputFiles, metafile, warnings } = await esbuild.build({
    stdin: { contents: "export { SearchClient } from 'dpr-web';", resolveDir: fileURLToPath(new URL('..', import.meta.url)) },
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    metafile: true,
    write: false,
    logLevel: 'silent',
    // Scripts of their own, for pages that re-rank or answer, and for private modes.
    external: ['*/reading/reading.js', '*/privacy/privacy.js'],
    // Not this package's own, which would add `"use strict"`.
    tsconfigRaw: {},
  });
  assert.deepEqual(warnings, []);
  const [{ inputs }] = Object.values(metafile.outputs);
  const files = Object.entries(inputs).sort(([, a], [, b]) => b.bytesInOutput - a.bytesInOutput);
  for (const [name, { bytesInOutput }] of files.slice(0, 12)) t.diagnostic(`${bytesInOutput} bytes before gzip: ${name}`);
  const bytes = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  t.diagnostic(`${bytes} bytes after gzip`);
  assert.ok(bytes <= MOST, `${bytes} bytes`);
  // A page can do without the files of workers: they are not in it.
  assert.deepEqual(files.filter(([name]) => /worker\/(serve|engine|wasm-)/.test(name)), []);
});
