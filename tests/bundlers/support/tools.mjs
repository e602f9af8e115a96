// Programs that a case runs: to their end, or beside it as servers.
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import path from 'node:path';

/** Lines of a tool's output that an error repeats, of its begin and of its end. */
const LINES = [20, 40];
const LONGEST = 10 * 60_000;

/** No tool reports home or asks questions, and none writes colours into a log. */
const QUIET = {
  ASTRO_TELEMETRY_DISABLED: '1',
  CI: '1',
  DO_NOT_TRACK: '1',
  FORCE_COLOR: undefined,
  NEXT_TELEMETRY_DISABLED: '1',
  NG_CLI_ANALYTICS: 'false',
  NO_COLOR: '1',
  NODE_ENV: undefined,
  NUXT_TELEMETRY_DISABLED: '1',
};

/** Ends each program that runs. */
const running = new Set();
process.on('exit', () => running.forEach((kill) => kill()));
for (const [signal, number] of [['SIGINT', 2], ['SIGTERM', 15], ['SIGHUP', 1]]) {
  process.on(signal, () => process.exit(128 + number));
}

/** A program that failed, with the end of what it printed. */
export class ToolError extends Error {
  constructor(what, output) {
    super(`${what}\n${shortened(output.trimEnd().split('\n')).join('\n')}`);
  }
}

function shortened(lines) {
  const [first, last] = LINES;
  if (lines.length <= first + last) return lines;
  return [...lines.slice(0, first), `[${lines.length - first - last} lines]`, ...lines.slice(-last)];
}

/** Starts a program of the project, or of PATH. `first` are folders that go before both. */
function start(folder, [program, ...words], { env = {}, first = [] } = {}) {
  const folders = [...first, path.join(folder, 'node_modules/.bin'), process.env.PATH];
  const child = spawn(program, words, {
    cwd: folder,
    // Deno keeps what a page caches beside its modules: in the project, which is made anew for each case.
    env: { ...process.env, ...QUIET, DENO_DIR: path.join(folder, '.deno'), ...env, PATH: folders.join(path.delimiter) },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own, so that what a tool has started ends with it.
    detached: true,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  const ended = new Promise((resolve) => {
    child.once('error', (error) => resolve(`could not be started: ${error.message}`));
    child.once('close', (code, signal) => resolve(code === 0 ? '' : `ended with ${code ?? signal}`));
  });
  const kill = () => {
    running.delete(kill);
    try {
      process.kill(-child.pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
  };
  running.add(kill);
  void ended.then(() => running.delete(kill));
  return { ended, kill, output: () => output, command: [program, ...words].join(' ') };
}

/** Runs a program to its end and returns what it printed. */
export async function run(folder, command, options) {
  const tool = start(folder, command, options);
  const timer = setTimeout(tool.kill, LONGEST);
  const wrong = await tool.ended;
  clearTimeout(timer);
  if (wrong) throw new ToolError(`\`${tool.command}\` ${wrong}`, tool.output());
  return tool.output();
}

/** Starts a server of the project, and waits until `url` answers with a page. */
export async function serve(folder, command, url, options) {
  let status;
  const answers = async () => {
    const answer = await fetch(url).catch(() => undefined);
    await answer?.arrayBuffer().catch(() => undefined);
    status = answer?.status;
    return answer?.ok;
  };
  return { url, ...(await beside(folder, command, answers, options, () => `does not answer at ${url} (${status})`)) };
}

/** Starts a program that runs until `stop`, and waits until `isReady`, which gets what the program has printed. */
export async function beside(folder, command, isReady, options, late = () => 'is not ready') {
  const tool = start(folder, command, options);
  let wrong;
  void tool.ended.then((said) => (wrong = said || 'ended'));
  const stop = async () => {
    tool.kill();
    await tool.ended;
  };
  const until = Date.now() + 120_000;
  while (!(await isReady(tool.output()))) {
    if (wrong || Date.now() > until) {
      await stop();
      throw new ToolError(`\`${tool.command}\` ${wrong ?? late()}`, tool.output());
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { stop, output: tool.output };
}

/** A port that nothing listens on. */
export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
