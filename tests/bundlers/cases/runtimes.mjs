// Where there is no page: servers that render pages, test runners, other programs that run JavaScript.
import { LEAST_COSINE } from '../support/browser.mjs';
import { leaks } from '../support/leaks.mjs';
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

/** Encodes and searches with `dpr-web/node`, in a thread and then in the thread that asks, with the files that the first kept. */
const entry = ({ name, command, ...rest }) => ({
  name: `entry-${name}`,
  sources: ['runtime'],
  ...rest,
  run: async (job) => {
    if (name === 'bun') await job.placeBun();
    const [requests, searches] = [job.server.requests.length, job.server.searches.length];
    const titles = nearest(QUESTION.vector, 5).map(({ title }) => title);
    for (const engine of ['thread', 'inline']) {
      const said = JSON.parse(await job.tool(...command, 'node.mjs', engine, job.server.url, QUESTION.text));
      if (said.titles.join() !== titles.join()) throw new Error(`${engine}: found ${said.titles}, expected ${titles}`);
      for (const vector of [said.vector, job.server.searches.at(-1)]) {
        const likeness = cosine(vector, QUESTION.vector);
        if (!(likeness >= LEAST_COSINE)) throw new Error(`${engine}: the vector's cosine to Python's is ${likeness}`);
      }
    }
    if (job.server.searches.length !== searches + 2) throw new Error('each engine has to send one search');
    const sent = job.server.requests.slice(requests);
    const files = sent.map(({ what }) => what).filter((what) => what.includes('/v1/model/files/'));
    if (files.length !== 3) throw new Error(`model files have to be downloaded once: ${files.join(', ')}`);
    const told = sent.flatMap(({ what, head, body }) => leaks(`${what}\n${head}\n${body}`, QUESTION.text));
    if (told.length > 0) throw new Error(`the question left the process: ${told.join(', ')}`);
  },
});

const entryOfNode = (major) => ({
  ...entry({ name: major ? `node-${major}` : 'node', command: ['node'] }),
  about: `${major ? `Node.js ${major}` : 'the Node.js that runs the tests'}: \`dpr-web/node\` encodes and searches, in a thread and inline`,
  template: 'plain',
  node: major,
});

const entryOf = (name, command) => ({
  ...entry({ name, command }),
  about: `${name}: \`dpr-web/node\` encodes and searches, in a thread and inline`,
  template: name,
  packages: [name],
});

export const runtimes = [
  { ...node(undefined), name: 'node', about: 'the Node.js that runs the tests: the same' },
  ...[22, 24, 26].map(node),
  runtime('bun', ['bun', 'run']),
  runtime('deno', ['deno', 'run', '--allow-net', '--allow-read', '--allow-env']),
  ...[undefined, 22, 24, 26].map(entryOfNode),
  entryOf('bun', ['bun', 'run']),
  entryOf('deno', ['deno', 'run', '--allow-net', '--allow-read', '--allow-write=model-files', '--allow-env']),
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
