// Bundlers other than Vite, with no configuration beyond what the README says.

import { EVERY_BROWSER } from './browsers.mjs';

const HTML = ['index.html', 'dist/index.html'];

/** The files that the README has one copy, where a bundler does not. */
function copyModules(job, folder) {
  for (const build of ['cpu', 'relaxed', 'webgpu'])
    job.copy(`node_modules/dpr-web/wasm/${build}/dpr_wasm_bg.wasm`, `${folder}/${build}.wasm`);
}

export const bundlers = [
  {
    browsers: EVERY_BROWSER,
    name: 'webpack-5',
    about: 'webpack 5, production',
    template: 'webpack',
    sources: ['page', 'classic-page'],
    packages: ['webpack', 'webpack-cli'],
    short: ['chromium'],
    run: async (job) => {
      await job.tool('webpack', '--mode', 'production', '--entry', './main.js');
      job.copy(...HTML);
      await job.ask(await job.site('dist'));
    },
  },
  {
    name: 'webpack-5-development',
    about: 'webpack 5, development, below `/sub/`',
    template: 'webpack',
    sources: ['page', 'classic-page'],
    packages: ['webpack', 'webpack-cli'],
    run: async (job) => {
      await job.tool('webpack', '--mode', 'development', '--entry', './main.js', '--output-public-path', '/sub/');
      job.copy(...HTML);
      await job.ask(await job.site('dist', { base: '/sub/' }));
    },
  },
  {
    name: 'esbuild',
    about: 'esbuild, with a worker of the page’s own',
    template: 'esbuild',
    sources: ['page', 'own-worker'],
    packages: ['esbuild'],
    short: ['chromium'],
    run: async (job) => {
      await job.tool('esbuild', 'main.js', '--bundle', '--format=esm', '--minify', '--outfile=dist/main.js');
      await job.tool(
        'esbuild',
        'worker.js',
        '--bundle',
        '--format=esm',
        '--minify',
        '--outfile=dist/assets/dpr-web-worker.js',
      );
      copyModules(job, 'dist/assets');
      job.copy(...HTML);
      await job.ask(await job.site('dist'));
    },
  },
  {
    name: 'rollup-4',
    about: 'Rollup 4 with its plugin for packages, with a worker of the page’s own',
    template: 'rollup',
    sources: ['page', 'own-worker'],
    packages: ['rollup', '@rollup/plugin-node-resolve'],
    run: async (job) => {
      const rollup = ['rollup', '--format', 'es', '--plugin', 'node-resolve={browser:true}'];
      await job.tool(...rollup, '--dir', 'dist', 'main.js');
      await job.tool(...rollup, '--file', 'dist/assets/dpr-web-worker.js', 'worker.js');
      copyModules(job, 'dist/assets');
      job.copy(...HTML);
      await job.ask(await job.site('dist'));
    },
  },
  {
    browsers: EVERY_BROWSER,
    name: 'parcel-2',
    about: 'Parcel 2, production',
    template: 'parcel',
    sources: ['page'],
    packages: ['parcel'],
    run: async (job) => {
      await job.tool('parcel', 'build', 'index.html');
      await job.ask(await job.site('dist'));
    },
  },
  {
    name: 'rspack-2',
    about: 'Rspack 2, production',
    template: 'rspack',
    sources: ['page', 'classic-page'],
    packages: ['@rspack/core', '@rspack/cli'],
    run: async (job) => {
      await job.tool('rspack', 'build', '--mode', 'production', '--entry', './main.js');
      job.copy(...HTML);
      await job.ask(await job.site('dist'));
    },
  },
];

export const bun = {
  name: 'bun-bundler',
  about: 'Bun’s bundler, with a worker of the page’s own',
  template: 'bun',
  sources: ['page', 'own-worker'],
  packages: ['bun'],
  run: async (job) => {
    await job.placeBun();
    await job.tool('bun', 'build', 'main.js', '--minify', '--outdir', 'dist');
    await job.tool('bun', 'build', 'worker.js', '--minify', '--outfile', 'dist/assets/dpr-web-worker.js');
    copyModules(job, 'dist/assets');
    job.copy(...HTML);
    await job.ask(await job.site('dist'));
  },
};
