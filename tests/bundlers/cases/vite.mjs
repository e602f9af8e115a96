// Vite: builds without a configuration, below another path, and its development server.
import { EVERY_BROWSER } from './browsers.mjs';

const page = { sources: ['page'], packages: ['vite'] };

function build(major, more = {}) {
  return {
    ...page,
    name: `vite-${major}`,
    about: `Vite ${major}, \`vite build\``,
    template: `vite-${major}`,
    ...more,
    run: async (job) => {
      await job.tool('vite', 'build');
      await job.ask(await job.site('dist'));
    },
  };
}

function dev(major, sources, how) {
  return {
    ...page,
    name: `vite-${major}-dev`,
    about: `Vite ${major}, \`vite dev\`${how}`,
    template: `vite-${major}`,
    sources: [...page.sources, ...sources],
    run: async (job) => {
      const url = await job.serve((port) => ['vite', '--port', port, '--strictPort', '--host', '127.0.0.1']);
      // Vite puts a script of its own before the page's policy for referrers; it is on the developer's own machine.
      await job.ask(url, { inAddress: false });
    },
  };
}

/** Without a configuration `vite dev` moves the package away from its workers: the README says what to set. */
const excluded = (major) => dev(major, ['vite-exclude'], ' with `optimizeDeps.exclude`');

export const vite = [
  build(8, { browsers: EVERY_BROWSER, short: ['chromium', 'firefox'] }),
  {
    ...page,
    name: 'vite-8-sub',
    about: 'Vite 8, `vite build --base /sub/`',
    template: 'vite-8',
    run: async (job) => {
      await job.tool('vite', 'build', '--base', '/sub/');
      await job.ask(await job.site('dist', { base: '/sub/' }));
    },
  },
  dev(8, [], ''),
];

export const olderVite = [7, 6, 5].flatMap((major) => [build(major), excluded(major)]);
