// The script `bundle`: one file for pages that load the package from a CDN, one for each worker, and one each for what
// re-ranks and answers, for private modes, and for search without a server, whole or by buckets, which a page fetches
// when it does.
import { copyFileSync, readFileSync } from 'node:fs';
import esbuild from 'esbuild';

const common = {
  bundle: true,
  format: 'esm',
  minify: true,
  target: 'es2022',
  external: ['*/dpr_wasm.js'],
  outdir: 'dist/cdn',
  entryNames: '[name]',
  logLevel: 'warning',
};

/** Leaves imports of these modules to another file of the folder. */
const from = (file, filter) => ({
  name: file,
  setup: (build) => build.onResolve({ filter }, ({ kind }) => (kind === 'entry-point' ? undefined : { path: `./${file}`, external: true })),
});

/**
 * Imports at once what is in the same file anyway: esbuild would wrap each module that an `import()` reaches into a
 * function, which makes the file 5 % larger, compressed. Not what another file of the folder has.
 */
const atOnce = {
  name: 'at once',
  setup: (build) =>
    build.onLoad({ filter: /[\\/]dist[\\/].*\.js$/ }, ({ path }) => {
      const found = [];
      const text = readFileSync(path, 'utf8').replace(/\bimport\(('[^']+')\)/g, (whole, name) => {
        if (/\/(reading|privacy|local-search|bucket-search)\.js'$/.test(name)) return whole;
        if (!found.includes(name)) found.push(name);
        return `Promise.resolve(part_${found.indexOf(name)})`;
      });
      return { contents: found.map((name, at) => `import * as part_${at} from ${name};\n`).join('') + text };
    }),
};

await esbuild.build({
  ...common,
  entryPoints: ['index', 'worker/worker-cpu', 'worker/worker-webgpu'].map((name) => `dist/${name}.js`),
  plugins: [atOnce, from('reading.js', /\/reading\/reading\.js$/), from('privacy.js', /\/privacy\/privacy\.js$/)],
});
// Its errors are those of the first file: `instanceof` must hold.
const parts = ['dist/reading/reading.js', 'dist/privacy/privacy.js', 'dist/local/local-search.js', 'dist/local/bucket-search.js'];
await esbuild.build({
  ...common,
  entryPoints: parts,
  plugins: [
    atOnce,
    from('index.js', /\/errors\/[a-z-]+\.js$/),
    from('local-search.js', /\/local\/local-search\.js$/),
    from('bucket-search.js', /\/local\/bucket-search\.js$/),
  ],
});

// The workers that the package starts are whole files for bundlers too, which then have nothing to share among them.
for (const name of ['worker-cpu.js', 'worker-webgpu.js']) copyFileSync(`dist/cdn/${name}`, `dist/worker/${name}`);
