// The script `bundle`: one file for pages that load the package from a CDN, one for each worker, and one each for what
// re-ranks and answers, for private modes, and for search without a server, whole or by buckets, which a page fetches
// when it does.
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

await esbuild.build({
  ...common,
  entryPoints: ['index', 'worker/worker-cpu', 'worker/worker-webgpu', 'worker/worker-shared'].map((name) => `dist/${name}.js`),
  plugins: [from('reading.js', /\/reading\/reading\.js$/), from('privacy.js', /\/privacy\/privacy\.js$/)],
});
// Its errors are those of the first file: `instanceof` must hold.
const parts = ['dist/reading/reading.js', 'dist/privacy/privacy.js', 'dist/local/local-search.js', 'dist/local/bucket-search.js'];
await esbuild.build({
  ...common,
  entryPoints: parts,
  plugins: [
    from('index.js', /\/errors\/[a-z-]+\.js$/),
    from('local-search.js', /\/local\/local-search\.js$/),
    from('bucket-search.js', /\/local\/bucket-search\.js$/),
  ],
});
