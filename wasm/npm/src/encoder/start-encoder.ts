import { recallDevice, rememberDevice } from '../device/remembered-device.js';
import { savesData, webgpuObstacle } from '../device/webgpu-support.js';
import { DprWebError } from '../errors/dpr-web-error.js';
import { EncoderError } from '../errors/encoder-error.js';
import type { Device, DeviceChoice, Dtype, DtypeChoice } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import type { ProgressListener } from '../types/progress.js';
import { chooseDtype, fetchModelFiles, type ModelFiles } from '../weights/model-files.js';
import type { Transport } from '../wire/transport.js';
import { within } from '../wire/within.js';
import type { WorkerSource } from '../worker/encoder-worker.js';
import { openSession } from './open-session.js';
import { WorkerFailure } from './worker-failure.js';
import type { WorkerSession } from './worker-session.js';

/** How to start; the options of the public API with their defaults filled in. */
export interface StartSettings {
  device: DeviceChoice;
  dtype: DtypeChoice;
  /** Whether `auto` may time WebGPU. */
  measures: boolean;
  onProgress: ProgressListener;
  workers: WorkerSource;
  requests: Transport;
  /** Ends the start. */
  signal: AbortSignal | undefined;
  /** Ends with the encoder. */
  life: AbortSignal;
}

/** A running encoder and the weights format it was made from. */
export interface Started {
  session: WorkerSession;
  dtype: Dtype;
  /** WebGPU, if it turns out to be faster; its session is not in use yet. Never rejects. */
  faster?: Promise<WorkerSession | undefined>;
}

type Open = (
  device: Device,
  keepFiles: boolean,
  signal?: AbortSignal,
  onStarted?: () => void,
) => Promise<WorkerSession>;

/**
 * Starts the encoder on the device that was asked for, or on the CPU where WebGPU does not work. `auto` starts on the
 * CPU and times WebGPU afterwards, unless it is known already which is faster. One weights file is downloaded, whatever
 * happens.
 */
export async function startEncoder(manifest: ModelManifest, settings: StartSettings): Promise<Started> {
  const { onProgress, life } = settings;
  const plan = await choosePlan(manifest, settings);
  const dtype = chooseDtype(settings.dtype, settings.device === 'auto' || plan === 'measure' ? 'auto' : plan, manifest);
  return within([settings.signal, life], async (stop) => {
    const open = opener(manifest, dtype, settings, stop.signal);
    const isMeasured = plan === 'measure';
    const opening = plan === 'webgpu' ? openOr(open, onProgress, stop.signal) : openCpu(open, isMeasured, stop.signal);
    const session = await opening;
    onProgress({ status: 'ready', device: session.device, dtype });
    // Its listener may have had enough.
    stop.signal.throwIfAborted();
    if (!isMeasured) return { session, dtype };
    return { session, dtype, faster: findFaster(session, open, manifest.fingerprint, settings) };
  });
}

/** Starts the CPU encoder after a worker was lost, from the files that are already kept. */
export function restartOnCpu(manifest: ModelManifest, dtype: Dtype, settings: StartSettings): Promise<Started> {
  return within([settings.life], async (stop) => {
    const session = await openCpu(opener(manifest, dtype, settings, stop.signal), false, stop.signal);
    settings.onProgress({ status: 'ready', device: 'cpu', dtype });
    return { session, dtype };
  });
}

/**
 * Opens sessions with the files of one download, which ends with the signal that it began with. Workers that say nothing
 * share one wait: where another may be tried after this one, this one has half of what is left.
 */
function opener(manifest: ModelManifest, dtype: Dtype, settings: StartSettings, until: AbortSignal): Open {
  const { onProgress, requests, workers } = settings;
  let files: Promise<ModelFiles> | undefined;
  let patience = workers.startTimeout;
  return async (device, keepFiles, signal = until, onStarted) => {
    let limit = 0;
    const open = () =>
      openSession({
        device,
        files() {
          files ??= fetchModelFiles(manifest, dtype, onProgress, requests, signal);
          // A failed download is heard of where it is waited for, or nobody asks any more.
          files.catch(() => undefined);
          return files;
        },
        keepFiles,
        model: `${manifest.fingerprint} ${dtype}`,
        dim: manifest.dim,
        workers,
        signal,
        patience: (isShared) => (limit = isShared || (device === 'webgpu' && keepFiles) ? patience / 2 : patience),
        onStarted(files) {
          onProgress({ status: 'worker', device, ...files });
          onStarted?.();
        },
      }).catch((error: unknown) => {
        // Of silences, that before the first word alone has a fix.
        if (error instanceof WorkerFailure && error.code === 'worker_silent' && error.fix) patience -= limit;
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

async function choosePlan(manifest: ModelManifest, settings: StartSettings): Promise<Device | 'measure'> {
  if (settings.device === 'cpu') return 'cpu';
  const obstacle = await webgpuObstacle();
  settings.signal?.throwIfAborted();
  if (obstacle === undefined) {
    if (settings.device === 'webgpu') return 'webgpu';
    return recallDevice(manifest.fingerprint) ?? (settings.measures && !savesData() ? 'measure' : 'cpu');
  }
  if (settings.device === 'webgpu') {
    settings.onProgress({ status: 'fallback', from: 'webgpu', to: 'cpu', reason: obstacle });
  }
  return 'cpu';
}

async function openCpu(open: Open, keepFiles: boolean, signal: AbortSignal): Promise<WorkerSession> {
  try {
    return await open('cpu', keepFiles);
  } catch (error) {
    signal.throwIfAborted();
    if (!isDeviceFailure(error)) throw error;
    const { fix, code } = error instanceof WorkerFailure ? error : {};
    const message = `the question encoder could not be started: ${messageOf(error)}`;
    throw new EncoderError(message, fix, code, { cause: error });
  }
}

/** WebGPU, or the CPU when it does not start. */
async function openOr(open: Open, onProgress: ProgressListener, signal: AbortSignal): Promise<WorkerSession> {
  try {
    return await open('webgpu', true);
  } catch (error) {
    signal.throwIfAborted();
    if (!isDeviceFailure(error)) throw error;
    onProgress({ status: 'fallback', from: 'webgpu', to: 'cpu', reason: messageOf(error) });
    return openCpu(open, false, signal);
  }
}

/**
 * Times WebGPU on the weights of the CPU's session, and then the CPU between its questions. Remembers the faster; not
 * one that lost because of the network.
 */
async function findFaster(
  cpu: WorkerSession,
  open: Open,
  fingerprint: string,
  { onProgress, life }: StartSettings,
): Promise<WorkerSession | undefined> {
  let gpu: WorkerSession | undefined;
  let isStarted = false;
  try {
    gpu = await open('webgpu', false, life, () => (isStarted = true));
    const milliseconds = await gpu.measure();
    onProgress({ status: 'measure', device: 'webgpu', milliseconds });
    const cpuTime = await cpu.measure();
    onProgress({ status: 'measure', device: 'cpu', milliseconds: cpuTime });
    const faster = milliseconds < cpuTime ? gpu : cpu;
    rememberDevice(fingerprint, faster.device);
    if (faster === gpu) return gpu;
    gpu.end(new Error('the other device is faster'));
  } catch (error) {
    gpu?.end(error as Error);
    if (life.aborted) return undefined;
    if (isStarted) rememberDevice(fingerprint, 'cpu');
    onProgress({ status: 'fallback', from: 'webgpu', to: 'cpu', reason: messageOf(error) });
  }
  return undefined;
}

/** A failed download or a wrong file is no reason to try another device. */
function isDeviceFailure(error: unknown): boolean {
  return !(error instanceof DprWebError);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
