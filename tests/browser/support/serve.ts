import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { repository } from './paths.ts';

/**
 * Starts the real `dpr serve` on a free port and ends it after the tests. `DPR_URL` names one that runs
 * already; `DPR_BIN`, `DPR_MODEL`, `DPR_INDEX` and `DPR_WEB` name other builds and data.
 */
export default async function serve(): Promise<(() => Promise<void>) | undefined> {
  if (process.env.DPR_URL) return undefined;
  const { url, stop } = await startServer();
  process.env.DPR_URL = url;
  return stop;
}

/** Starts one more, with other data than the environment names. */
export async function startServer(
  data: { DPR_MODEL?: string; DPR_INDEX?: string; DPR_WEB?: string; more?: string[] } = {},
): Promise<{ url: string; stop(): Promise<void> }> {
  const child = spawn(
    repository('target/release/dpr', 'DPR_BIN'),
    [
      'serve',
      ...['--model', data.DPR_MODEL ?? repository('data/model', 'DPR_MODEL')],
      ...['--index', data.DPR_INDEX ?? repository('data/index', 'DPR_INDEX')],
      ...['--web', data.DPR_WEB ?? repository('web-demo/dist', 'DPR_WEB')],
      ...['--listen', '127.0.0.1:0', '--json'],
      ...(data.more ?? []),
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const ended = new Promise<never>((_, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`dpr serve ended with ${code} before it listened`)));
  });
  ended.catch(() => undefined);
  const firstLine = new Promise<string>((resolve) => createInterface(child.stdout).once('line', resolve));
  const { listening } = JSON.parse(await Promise.race([firstLine, ended])) as { listening: string };
  const url = listening.startsWith('http') ? listening : `http://${listening}`;
  const stop = async () => {
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await gone;
  };
  return { url, stop };
}
