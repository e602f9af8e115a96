import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import esbuild from 'esbuild';

const PACKAGE = fileURLToPath(new URL('../..', import.meta.url));
const { exports, peerDependencies, peerDependenciesMeta } = JSON.parse(readFileSync(path.join(PACKAGE, 'package.json'), 'utf8'));
/** Entries that are the package itself. */
const CORE = ['.', './worker', './worker/cpu', './worker/webgpu', './worker/shared', './wasm/*', './package.json'];
const ENTRIES = Object.keys(exports).filter((name) => !CORE.includes(name));
const MOST_BYTES = 2000;
/** Entries that are a client of their own, and no adapter. */
const CLIENTS = { './local': 5000 };

/**
 * The package's own modules that `dpr-web` and its workers load before anything is asked of them, as they are in `dist`,
 * and what reads the manifest of every model.
 */
async function coreModules() {
  const entries = ['.', './worker', './worker/shared'].map((name) => exports[name].default);
  const entryPoints = [...entries, 'dist/weights/read-manifest.js'].map((file) => path.join(PACKAGE, file));
  const { metafile } = await esbuild.build({ entryPoints, outdir: 'out', bundle: true, format: 'esm', write: false, metafile: true, external: ['*/dpr_wasm.js'], absWorkingDir: PACKAGE });
  const core = new Set(entryPoints.map((file) => path.relative(PACKAGE, file)));
  for (const file of core) {
    for (const { path: next, kind, external } of metafile.inputs[file].imports) if (kind === 'import-statement' && !external) core.add(next);
  }
  return new Set([...core].map((file) => path.join(PACKAGE, file)));
}

/** What this code becomes with everything of a framework and of `dpr-web` left out. */
async function bundle(contents, core) {
  const outside = {
    name: 'outside',
    setup(build) {
      build.onResolve({ filter: /.*/ }, ({ path: wanted, importer, kind, resolveDir }) => {
        if (kind === 'entry-point') return undefined;
        if (!wanted.startsWith('.')) return { path: wanted, external: true, sideEffects: false };
        const file = path.resolve(importer === '<stdin>' ? resolveDir : path.dirname(importer), wanted);
        // A name that is as long wherever the clone lies.
        return core.has(file) ? { path: `./${path.relative(PACKAGE, file)}`, external: true, sideEffects: false } : undefined;
      });
    },
  };
  const { outputFiles, metafile } = await esbuild.build({
    stdin: { contents, resolveDir: PACKAGE },
    absWorkingDir: PACKAGE,
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    write: false,
    metafile: true,
    legalComments: 'none',
    logLevel: 'silent',
    plugins: [outside],
  });
  return { text: outputFiles[0].text, inputs: Object.keys(metafile.inputs) };
}

for (const name of ENTRIES) {
  const most = CLIENTS[name] ?? MOST_BYTES;
  test(`${name} is at most ${most} bytes compressed, and nothing of it stays when it is not used`, async (t) => {
    const core = await coreModules();
    const entry = exports[name].default;
    const { text, inputs } = await bundle(`export * from '${entry}';`, core);
    const bytes = gzipSync(text, { level: 9 }).length;
    t.diagnostic(`${name}: ${bytes} bytes gzip`);
    assert.ok(bytes <= most, `${bytes} bytes`);
    // One adapter does not pull another.
    const folders = new Set(inputs.map((file) => file.split('/')[1]).filter((folder) => folder !== undefined));
    const own = name.slice(2);
    assert.deepEqual([...folders].filter((folder) => folder !== own && folder !== 'shared'), [], inputs.join(' '));
    const { sideEffects } = JSON.parse(readFileSync(path.join(PACKAGE, 'package.json'), 'utf8'));
    if (!sideEffects.includes(entry)) assert.equal((await bundle(`import '${entry}';`, core)).text.trim(), '');
  });
}

test('exports name types first, and every framework is an optional peer', () => {
  for (const name of [...ENTRIES, '.', './worker', './worker/cpu', './worker/webgpu']) {
    assert.deepEqual(Object.keys(exports[name]), ['types', 'import', 'default'], name);
  }
  assert.deepEqual(Object.keys(peerDependenciesMeta).sort(), Object.keys(peerDependencies).sort());
  for (const [name, { optional }] of Object.entries(peerDependenciesMeta)) assert.equal(optional, true, name);
});
