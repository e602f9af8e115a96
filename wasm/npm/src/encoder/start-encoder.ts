import type { Dtype } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import type { ModelFiles } from '../weights/model-files.js';
import { offeredDtype } from '../weights/offered-dtype.js';
import { loaded } from '../wire/loaded.js';
import { within } from '../wire/within.js';
import { isDeviceFailure, messageOf } from './device-failure.js';
import { openCpu, type Open } from './open-cpu.js';
import { openSession } from './open-session.js';
import type { StartSettings } from './start-settings.js';
import { WorkerFailure } from './worker-failure.js';
import type { WorkerSession } from './worker-session.js';

/** A running encoder and the weights format it was made from. */
export interface Started {
  session: WorkerSession;
  dtype: Dtype;
  /** WebGPU, if it turns out to be faster; its session is not in use yet. Never rejects. */
  faster?: Promise<WorkerSession | undefined>;
}

/**
 * Starts the encoder on the device that was asked for, or on the CPU where WebGPU does not work. `auto` starts on the
 * CPU and times WebGPU afterwards, unless it is known already which is faster. One weights file is downloaded, whatever
 * happens.
 */
export async function startEncoder(manifest: ModelManifest, settings: StartSettings): Promise<Started> {
  const { device, onProgress, life } = settings;
  const gpu = await gpuPart(settings);
  const plan = gpu ? await gpu.choosePlan(manifest, settings) : 'cpu';
  const choice = [settings.dtype, device === 'auto' || plan === 'measure' ? 'auto' : plan, manifest] as const;
  // What says that there is none is a script of its own.
  const dtype = offeredDtype(...choice) ?? (await loaded(import('../weights/choose-dtype.js'))).chooseDtype(...choice);
  return within([settings.signal, life], async (stop) => {
    // Where two devices may need the files, the page has them.
    const open = opener(manifest, dtype, plan === 'cpu' ? settings : { ...settings, order: undefined }, stop.signal);
    const isMeasured = plan === 'measure';
    const session = await (plan === 'webgpu' ? gpu!.openOr(open, onProgress, stop.signal) : openCpu(open, isMeasured, stop.signal));
    onProgress({ status: 'ready', device: session.device, dtype });
    // Its listener may have had enough.
    stop.signal.throwIfAborted();
    return { session, dtype, ...(isMeasured && { faster: gpu!.findFaster(session, open, manifest, settings) }) };
  });
}

/** What is for GPUs, where there is one and it may be used. */
async function gpuPart({ device, onProgress }: StartSettings): Promise<typeof import('./gpu.js') | undefined> {
  if (device === 'cpu') return undefined;
  let reason = 'this browser has no WebGPU';
  try {
    if ((globalThis.navigator as { gpu?: object } | undefined)?.gpu) return await import('./gpu.js');
  } catch (error) {
    reason = messageOf(error);
  }
  if (device === 'webgpu') onProgress({ status: 'fallback', from: 'webgpu', to: 'cpu', reason });
  return undefined;
}

/**
 * Opens sessions with the files of one download, which ends with the signal that it began with. Workers that say nothing
 * share one wait: where another may be tried after this one, this one has half of what is left.
 */
export function opener(manifest: ModelManifest, dtype: Dtype, settings: StartSettings, until: AbortSignal): Open {
  const { onProgress, requests, workers, order } = settings;
  let files: Promise<ModelFiles> | undefined;
  let patience = workers.startTimeout;
  return async (device, keepFiles, signal = until, onStarted) => {
    const open = () =>
      openSession({
        device,
        files() {
          files ??= loaded(import('../weights/model-files.js')).then(({ fetchModelFiles }) =>
            fetchModelFiles(manifest, dtype, onProgress, requests, signal),
          );
          // A failed download is heard of where it is waited for, or nobody asks any more.
          files.catch(() => undefined);
          return files;
        },
        // Nothing but what can be sent to a worker.
        order: order && { ...order, dtype, manifest: { name: manifest.name, encoder: manifest.encoder, weights: manifest.weights } },
        keepFiles,
        model: `${manifest.fingerprint} ${manifest.weights[dtype]!.sha256}`,
        dim: manifest.dim,
        workers,
        signal,
        patience,
        onProgress,
        onStarted,
      }).catch((error: unknown) => {
        // The error has a fix only if the worker never sent a message; the next start then waits half as long.
        if (error instanceof WorkerFailure && error.code === 'worker_silent' && error.fix) patience /= 2;
        throw error;
      });
    try {
      return await open();
    } catch (error) {
      // Without a working shared worker, the tab starts a worker of its own.
      if (signal.aborted || !isDeviceFailure(error) || !workers.unshare?.(device)) throw error;
      return open();
    }
  };
}
