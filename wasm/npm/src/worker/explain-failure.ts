import { SessionEnded, WorkerFailure } from '../encoder/worker-failure.js';
import type { Device } from '../types/device.js';
import type { WorkerSource } from './encoder-worker.js';
import { fetchedScript } from './fetched-script.js';
import { spawnedScript } from './spawn.js';

// What is to be said of a worker that does not start: a script of its own.

const WRONG_SCRIPT =
  'Check that this script is there and allowed (worker-src, trusted types, cross-origin-embedder-policy), or give one of ' +
  '`dpr-web/worker` (`createWorker`): see "Worker" in the README of dpr-web.';

/**
 * The failure with the worker's address and with advice.
 *
 * @param createdAt - when the worker was made, by `performance.now()`
 * @param said - the address in the worker's own words
 */
export function explained(failure: WorkerFailure, source: WorkerSource, device: Device, createdAt: number, said: string | undefined): WorkerFailure {
  const { message, code } = failure;
  if (code === 'no_worker') return new WorkerFailure(message, code, 'In Node use `dpr-web/node`; elsewhere give the option `createWorker`.');
  // A worker that failed at other things.
  if (!failure.fix) return failure;
  // In its own words, as the browser fetched it, or where it should be.
  const address = said || fetchedScript(createdAt) || source.script?.(device) || (source.isOwn ? spawnedScript(device) : undefined);
  const name = address ? `the worker ${address}` : 'the worker that `createWorker` returned';
  const fix = code === 'worker_version' ? 'Build page and worker from one release of dpr-web.' : WRONG_SCRIPT;
  return Object.assign(new SessionEnded(message.replace('the worker', () => name), code, fix), { begun: (failure as SessionEnded).begun });
}
