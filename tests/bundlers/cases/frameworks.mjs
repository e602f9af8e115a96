// Frameworks: pages that a server or a build renders first, and that wake up in the browser.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { LEAST_COSINE } from '../support/browser.mjs';
import { cosine, nearest, QUESTIONS } from '../support/questions.mjs';

const EXAMPLES = fileURLToPath(new URL('../../../examples/web', import.meta.url));

const search = async (job, command, options) => job.ask(await job.serve(command), options);
const address = (port) => ['--port', port, '--hostname', '127.0.0.1'];

function next(major, bundler, flags, mode = 'build') {
  return {
    name: `next-${major}-${bundler}${mode === 'dev' ? '-dev' : ''}`,
    about: `Next ${major}, ${bundler === 'webpack' ? 'webpack' : 'Turbopack'}, \`next ${mode}\``,
    template: `next-${major}`,
    sources: ['next'],
    packages: ['next', 'react'],
    run: async (job) => {
      // While developing, Next tells its server on the same machine which page is open, address and all.
      if (mode === 'dev') return search(job, (port) => ['next', 'dev', ...flags, ...address(port)], { inAddress: false });
      await job.tool('next', 'build', ...flags);
      return search(job, (port) => ['next', 'start', ...address(port)]);
    },
  };
}

/** A framework that writes files for a static host. */
const built = ({ command, folder, ...rest }) => ({
  node: 24,
  ...rest,
  run: async (job) => {
    await job.tool(...command);
    await job.ask(await job.site(folder));
  },
});

/** Types a question into a built example, whose server is behind the same address, in each browser of the job. */
async function searchIn(job, folder) {
  const url = await job.site(folder, { server: job.server.url });
  for (const { browser } of job.browsers) await searchWith(browser, url, job.server);
}

/** Types a question into a page, and expects what Python finds. */
async function searchWith(browser, url, server) {
  const [{ text, vector }] = QUESTIONS;
  const { page, close } = await browser.open();
  const said = [];
  page.on('console', (message) => {
    // Browsers ask for an icon, which the examples do not have.
    const isIcon = /favicon\.ico$/.test(message.location().url ?? '');
    if (message.type() === 'error' && !isIcon) said.push(message.text());
  });
  page.on('pageerror', (error) => said.push(String(error)));
  try {
    await page.goto(url);
    await page.focus('input[type=search]');
    await page.keyboard.type(text);
    await page.keyboard.press('Enter');
    let titles = [];
    for (const end = Date.now() + 60_000; titles.length === 0 && Date.now() < end; ) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      titles = await page.evaluate("[...document.querySelectorAll('li strong')].map((title) => title.textContent)");
    }
    const expected = nearest(vector, 5).map(({ title }) => title);
    if (titles.join() !== expected.join() || said.length > 0)
      throw new Error(`the page prints ${titles}, expected ${expected}\n${said.join('\n')}`);
    const likeness = cosine(server.searches.at(-1), vector);
    if (!(likeness >= LEAST_COSINE)) throw new Error(`the vector's cosine to Python's is ${likeness}`);
  } finally {
    await close();
  }
}

/**
 * An example that people copy: its build has to have the worker and the module of the CPU in it, and where it is a page for
 * a static host, it has to find what Python finds.
 */
const example = ({ name, about, template, packages, command, folder, node, isStatic }) => ({
  name: `example-${name}`,
  about: `the example \`${name}\`: ${about}`,
  template,
  sources: [path.join(EXAMPLES, name)],
  packages,
  node,
  run: async (job) => {
    // Frameworks look in it for packages that they have to build; the packages themselves are those of the template.
    job.write('package.json', readFileSync(path.join(EXAMPLES, name, 'package.json'), 'utf8'));
    await job.tool(...command);
    const files = readdirSync(path.join(job.folder, folder), { recursive: true });
    for (const wanted of [/worker|dpr-web-cpu/, /dpr_wasm_bg.*\.wasm$/]) {
      if (!files.some((file) => wanted.test(file))) throw new Error(`the build has no file like ${wanted}`);
    }
    if (isStatic) await searchIn(job, folder);
  },
});

export const examples = [
  example({
    name: 'next',
    about: 'Next 16, `next build`',
    template: 'next-16',
    packages: ['next', 'react'],
    command: ['next', 'build'],
    folder: '.next/static',
  }),
  example({
    name: 'nuxt',
    about: 'Nuxt 4, `nuxt build`',
    template: 'nuxt',
    packages: ['nuxt', 'vue'],
    command: ['nuxt', 'build'],
    folder: '.output/public',
    node: 24,
  }),
  example({
    name: 'sveltekit',
    about: 'SvelteKit 3 with its static adapter',
    template: 'sveltekit',
    packages: ['@sveltejs/kit', 'svelte'],
    command: ['vite', 'build'],
    folder: 'build',
    node: 24,
    isStatic: true,
  }),
  example({
    name: 'astro',
    about: 'Astro 7',
    template: 'astro',
    packages: ['astro'],
    command: ['astro', 'build'],
    folder: 'dist',
    node: 24,
    isStatic: true,
  }),
  example({
    name: 'angular',
    about: 'Angular 22',
    template: 'angular',
    packages: ['@angular/build', '@angular/core'],
    command: ['ng', 'build'],
    folder: 'dist/browser',
    node: 24,
    isStatic: true,
  }),
];

export const frameworks = [
  next(16, 'webpack', ['--webpack']),
  next(16, 'turbopack', []),
  next(15, 'webpack', []),
  next(15, 'turbopack', ['--turbopack']),
  next(16, 'turbopack', [], 'dev'),
  next(16, 'webpack', ['--webpack'], 'dev'),
  built({
    name: 'nuxt-4',
    about: 'Nuxt 4, `nuxt generate`',
    template: 'nuxt',
    packages: ['nuxt', 'vue'],
    command: ['nuxt', 'generate'],
    folder: '.output/public',
  }),
  built({
    name: 'sveltekit-3',
    about: 'SvelteKit 3 with its static adapter',
    template: 'sveltekit',
    packages: ['@sveltejs/kit', 'svelte'],
    command: ['vite', 'build'],
    folder: 'build',
  }),
  built({
    name: 'astro-7',
    about: 'Astro 7',
    template: 'astro',
    sources: ['page'],
    packages: ['astro'],
    command: ['astro', 'build'],
    folder: 'dist',
  }),
  built({
    name: 'angular-22',
    about: 'Angular 22, with a worker of the application’s own',
    template: 'angular',
    packages: ['@angular/build', '@angular/core'],
    command: ['ng', 'build'],
    folder: 'dist/browser',
  }),
];
