import type { Device } from '../types/device.js';
import type { LoadOptions } from '../types/options.js';
import { pageAddress } from '../wire/page-address.js';
import { spawnedScript, spawnedWasm, spawnWorker } from './spawn.js';

/** A script that a browser has fetched runs at once; this is for a slow line. Milliseconds. */
const START_TIMEOUT = 10_000;

/** Where workers come from. */
export interface WorkerSource {
  create(device: Device): Worker;
  /** Address of the worker's script, where it is known beforehand. */
  script(device: Device): string | undefined;
  /** Address of the module's code to hand in, or `undefined`: the worker knows. */
  wasm(device: Device): string | undefined;
  /** Longest wait for a worker's first word, in milliseconds. */
  startTimeout: number;
}

/** The package's own workers, or those of the page. */
export function workerSource({ createWorker, wasmUrl, startTimeout }: LoadOptions): WorkerSource {
  const own = createWorker === undefined;
  return {
    create: createWorker ?? spawnWorker,
    script: (device) => (own ? spawnedScript(device) : undefined),
    wasm: (device) => {
      // A worker of the page's own may lie beside other files than the page's script does.
      const url = wasmUrl?.[device] ?? (own ? spawnedWasm(device) : undefined);
      // Absolute: some bundlers give addresses that a worker could not resolve.
      return url === undefined ? undefined : new URL(String(url), pageAddress()).href;
    },
    startTimeout: startTimeout ?? START_TIMEOUT,
  };
}
