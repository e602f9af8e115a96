import type { Device } from '../types/device.js';
import { hasRelaxedSimd } from '../device/relaxed-simd.js';
import { WorkerFailure } from '../encoder/worker-failure.js';
import type { LoadOptions } from '../types/options.js';
import { address } from '../wire/address.js';
import type { Command, Presence, Reply } from './protocol.js';
import { spawnedScript, spawnedWasm, spawnWorker } from './spawn.js';

/** A script that a browser has fetched runs at once; this is for a slow line. Milliseconds. */
const START_TIMEOUT = 10_000;

/** A worker of this page, or this page's place in a shared one. */
export interface EncoderWorker {
  /** Whether it may have the model already, of another client. */
  readonly isShared?: boolean;
  onmessage: ((event: MessageEvent<Reply>) => void) | null;
  onmessageerror: ((event: MessageEvent) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  postMessage(message: Command | Presence, transfer: Transferable[]): void;
  /** Ends the worker, or leaves it to the others. */
  terminate(): void;
}

/** Where workers come from. */
export interface WorkerSource {
  create(device: Device): EncoderWorker;
  /** Address of the worker's script, where it is known beforehand. */
  script(device: Device): string | undefined;
  /** Address of the module's code to hand in, or `undefined`: the worker knows. */
  wasm(device: Device): string | undefined;
  /** Longest wait for a worker's first word, in milliseconds. */
  startTimeout: number;
  /** Makes only dedicated workers from now on; returns whether those for this device were shared until now. */
  unshare?(device: Device): boolean;
}

/** The package's own workers, or those of the page. */
export async function workerSource(options: LoadOptions): Promise<WorkerSource> {
  const own = dedicated(options);
  if (options.worker !== 'shared') return own;
  // Without the script that shares workers, they are not shared.
  const sharing = await import('./shared-source.js').catch(() => undefined);
  return sharing?.sharedSource(options, own) ?? own;
}

function dedicated({ createWorker, wasmUrl, startTimeout }: LoadOptions): WorkerSource {
  const own = createWorker === undefined;
  return {
    create: (createWorker as ((device: Device) => Worker) | undefined) ?? spawnOwn,
    script: (device) => (own ? spawnedScript(device) : undefined),
    wasm: (device) => {
      // A worker of the page's own may lie beside other files than the page's script does.
      const relaxed = device === 'cpu' && hasRelaxedSimd() ? wasmUrl?.cpuRelaxed : undefined;
      const url = relaxed ?? wasmUrl?.[device] ?? (own ? spawnedWasm(device) : undefined);
      // Absolute: some bundlers give addresses that a worker could not resolve.
      return url === undefined ? undefined : address(url, '`wasmUrl`').href;
    },
    startTimeout: startTimeout ?? START_TIMEOUT,
  };
}

function spawnOwn(device: Device): Worker {
  if (typeof globalThis.Worker === 'function') return spawnWorker(device);
  throw new WorkerFailure(
    'this runtime has no web workers',
    'no_worker',
    'In Node use `dpr-web/node`; elsewhere give the option `createWorker`.',
  );
}
