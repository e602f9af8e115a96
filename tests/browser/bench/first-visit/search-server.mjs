// The real `dpr serve`, with the weights for browsers.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { repository } from '../server.mjs';

/** Starts it on a free port and waits until it answers. */
export async function startSearchServer(model, index) {
  const program = process.env.DPR_BIN ?? repository('target/release/dpr');
  const child = spawn(program, ['serve', '--model', model, '--index', index, '--listen', '127.0.0.1:0', '--json'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((_, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`dpr serve ended with ${code}`)));
  });
  ended.catch(() => undefined);
  const first = new Promise((resolve) => createInterface(child.stdout).once('line', resolve));
  const { listening } = JSON.parse(await Promise.race([first, ended]));
  const url = listening.startsWith('http') ? listening : `http://${listening}`;
  const { fingerprint } = await (await fetch(new URL('v1/model', `${url}/`))).json();
  return {
    url,
    fingerprint,
    close: () => {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      return gone;
    },
  };
}
