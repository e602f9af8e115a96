// Pages without a bundler, and the headers that a page may come with.
import { EVERY_BROWSER } from './browsers.mjs';

/** The package beside the page, as the README says. */
async function plainSite(job, options) {
  for (const part of ['dist', 'wasm']) job.copy(`node_modules/dpr-web/${part}`, `dpr-web/${part}`);
  return job.site('.', options);
}

const plain = { template: 'plain', packages: ['dpr-web'], short: ['chromium'] };
const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; img-src data:";

export const pages = [
  {
    ...plain,
    browsers: EVERY_BROWSER,
    short: EVERY_BROWSER,
    name: 'plain-page',
    about: 'no bundler: the package’s files beside the page',
    sources: ['page', 'plain-page'],
    run: async (job) => job.ask(await plainSite(job)),
  },
  {
    ...plain,
    name: 'plain-import-map',
    about: 'no bundler: the package’s modules one by one, by an import map',
    sources: ['page', 'import-map'],
    run: async (job) => job.ask(await plainSite(job)),
  },
  {
    ...plain,
    name: 'cdn',
    about: 'no bundler: the package on a host of another origin',
    sources: ['page', 'plain-page'],
    run: async (job) => {
      const cdn = await job.site('node_modules/dpr-web', { headers: { 'access-control-allow-origin': '*' } });
      job.write('main.js', job.read('main.js').replace('./dpr-web/', cdn));
      await job.ask(await job.site('.'));
    },
  },
  {
    ...plain,
    browsers: EVERY_BROWSER,
    name: 'csp',
    about: '`Content-Security-Policy` without `unsafe-eval`',
    sources: ['page', 'plain-page'],
    run: async (job) => {
      const policy = `${POLICY}; connect-src 'self' ${new URL(job.server.url).origin}`;
      await job.ask(await plainSite(job, { headers: { 'content-security-policy': policy } }));
    },
  },
  {
    ...plain,
    name: 'trusted-types',
    about: 'the same policy with `require-trusted-types-for`',
    sources: ['page', 'plain-page', 'trusted-types'],
    run: async (job) => {
      const types = "require-trusted-types-for 'script'; trusted-types search-page";
      const policy = `${POLICY}; connect-src 'self' ${new URL(job.server.url).origin}; ${types}`;
      await job.ask(await plainSite(job, { headers: { 'content-security-policy': policy } }));
    },
  },
  {
    ...plain,
    name: 'coep-coop',
    about: 'a page that is cross-origin isolated',
    sources: ['page', 'plain-page'],
    run: async (job) => {
      const headers = { 'cross-origin-embedder-policy': 'require-corp', 'cross-origin-opener-policy': 'same-origin' };
      const inspect = async (page) => {
        if (!(await page.evaluate('crossOriginIsolated'))) throw new Error('the page is not cross-origin isolated');
      };
      await job.ask(await plainSite(job, { headers }), { inspect });
    },
  },
];
