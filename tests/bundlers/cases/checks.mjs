// TypeScript, and tools that look at the package itself.
import { TARBALL } from '../support/project.mjs';

/** How an application finds its packages; `module` is what goes with it. */
const RESOLUTIONS = [
  ['bundler', 'esnext'],
  ['node16', 'node16'],
  ['nodenext', 'nodenext'],
];
const STRICT = [
  '--noEmit',
  '--strict',
  '--skipLibCheck',
  'false',
  '--exactOptionalPropertyTypes',
  '--noUncheckedIndexedAccess',
];
const PAGE = ['--target', 'es2022', '--lib', 'es2022,dom'];

const typescript = (version) => ({
  name: `typescript-${version}`,
  about: `TypeScript ${version}: strict, the package’s own types checked too, each way to find packages`,
  template: 'types',
  packages: [`typescript-${version}`],
  short: ['chromium'],
  run: async (job) => {
    for (const [resolution, module] of RESOLUTIONS) {
      const tsc = JSON.parse(job.read(`node_modules/typescript-${version}/package.json`)).bin.tsc;
      await job.tool(
        'node',
        `node_modules/typescript-${version}/${tsc}`,
        ...STRICT,
        ...PAGE,
        '--module',
        module,
        '--moduleResolution',
        resolution,
        'app.ts',
      );
    }
  },
});

export const checks = [
  ...['5.0', '5.7', '6.0', '7.0'].map(typescript),
  {
    name: 'publint',
    about: 'publint: what `package.json` promises is in the tarball',
    template: 'lint',
    packages: ['publint'],
    short: ['chromium'],
    run: async (job) => {
      await job.tool('publint', 'run', '--strict', TARBALL);
    },
  },
  {
    name: 'attw',
    about: 'Are The Types Wrong: types are found for each entry',
    template: 'lint',
    packages: ['@arethetypeswrong/cli'],
    short: ['chromium'],
    run: async (job) => {
      await job.tool('attw', TARBALL, '--profile', 'esm-only', '--no-color');
    },
  },
];
