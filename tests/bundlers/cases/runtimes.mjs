// Where there is no page: servers that render pages, test runners, other programs that run JavaScript.
import { LEAST_COSINE } from '../support/browser.mjs';
import { cosine, nearest, QUESTIONS } from '../support/questions.mjs';

const [QUESTION] = QUESTIONS;

const node = (major) => ({
  name: `node-${major}`,
  about: `Node.js ${major}: the import touches nothing, and an error says that there is no worker`,
  template: 'plain',
  sources: ['runtime'],
  node: major,
  run: async (job) => {
    await job.tool('node', 'import.mjs', job.server.url, QUESTION.text);
  },
});

const runtime = (name, command) => ({
  name,
  about: `${name}: a search`,
  template: name,
  sources: ['runtime'],
  packages: [name],
  run: async (job) => {
    if (name === 'bun') await job.placeBun();
    const before = job.server.searches.length;
    const said = await job.tool(...command, 'search.mjs', job.server.url, QUESTION.text);
    const [best] = nearest(QUESTION.vector, 1);
    if (!said.includes(`answered on cpu: ${best.title}`))
      throw new Error(`${name} printed ${said}, expected ${best.title}`);
    const likeness = cosine(job.server.searches[before], QUESTION.vector);
    if (likeness < LEAST_COSINE) throw new Error(`the vector's cosine to Python's is ${likeness}`);
  },
});

export const runtimes = [
  { ...node(undefined), name: 'node', about: 'the Node.js that runs the tests: the same' },
  ...[22, 24, 26].map(node),
  runtime('bun', ['bun', 'run']),
  runtime('deno', ['deno', 'run', '--allow-net', '--allow-read', '--allow-env']),
  {
    name: 'vitest-jsdom',
    about: 'Vitest with jsdom: the import, and an error that says that there is no worker',
    template: 'vitest',
    packages: ['vitest', 'jsdom'],
    node: 24,
    run: async (job) => {
      await job.tool('env', `DPR_SERVER=${job.server.url}`, 'vitest', 'run', '--environment', 'jsdom');
    },
  },
];
