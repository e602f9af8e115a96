import type { Device } from '../types/device.js';
import { WorkerFailure } from '../encoder/worker-failure.js';
import type { LoadOptions } from '../types/options.js';
import { address } from '../wire/address.js';
import type { WorkerSource } from './encoder-worker.js';
import { spawnedWasm, spawnWorker } from './spawn.js';

/** A script that a browser has fetched runs at once; this is for a slow line. Milliseconds. */
const START_TIMEOUT = 10_000;

/** The package's own workers, or those of the page. */
export async function workerSource(options: LoadOptions): Promise<WorkerSource> {
  const own = dedicated(options);
  if (options.worker !== 'shared') return own;
  // Without the script that shares workers, they are not shared.
  const sharing = await import('./shared-source.js').catch(() => undefined);
  return sharing?.sharedSource(options, own) ?? own;
}

function dedicated({ createWorker, wasmUrl, startTimeout }: LoadOptions): WorkerSource {
  const isOwn = createWorker === undefined;
  return {
    create: (createWorker as ((device: Device) => Worker) | undefined) ?? spawnOwn,
    isOwn,
    wasm: (build) => {
      // A worker of the page's own may lie beside other files than the page's script does.
      // A page that sets `wasmUrl.cpu` may not host the module for relaxed SIMD.
      const isThere = isOwn && !(wasmUrl?.cpu && build === 'relaxed');
      const url = wasmUrl?.[build] ?? (isThere ? spawnedWasm(build) : undefined);
      // Absolute: some bundlers give addresses that a worker could not resolve.
      return url && address(url, '`wasmUrl`').href;
    },
    startTimeout: startTimeout ?? START_TIMEOUT,
  };
}

function spawnOwn(device: Device): Worker {
  if (typeof globalThis.Worker === 'function') return spawnWorker(device);
  throw new WorkerFailure('no web workers', 'no_worker');
}
