import { recallDevice, rememberDevice } from '../device/remembered-device.js';
import { webgpuObstacle } from '../device/webgpu-support.js';
import { DprWebError } from '../errors/dpr-web-error.js';
import { EncoderError } from '../errors/encoder-error.js';
import type { Device, DeviceChoice, Dtype, DtypeChoice } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import type { ProgressListener } from '../types/progress.js';
import { chooseDtype, fetchModelFiles, type ModelFiles } from '../weights/model-files.js';
import type { Transport } from '../wire/transport.js';
import type { WorkerSource } from '../worker/worker-source.js';
import { openSession } from './open-session.js';
import { WorkerFailure, type WorkerSession } from './worker-session.js';

/** Loading, warming up and timing WebGPU may take this long, in milliseconds, before the CPU is taken instead. */
const WEBGPU_BUDGET = 15_000;

/** How to start; the options of the public API with their defaults filled in. */
export interface StartSettings {
  device: DeviceChoice;
  dtype: DtypeChoice;
  onProgress: ProgressListener;
  workers: WorkerSource;
  requests: Transport;
  signal: AbortSignal | undefined;
}

/** A running encoder and the weights format it was made from. */
export interface Started {
  session: WorkerSession;
  dtype: Dtype;
}

/**
 * Starts the encoder on the device that was asked for, or the faster one, or the CPU where WebGPU
 * does not work. One weights file is downloaded, whatever happens.
 */
export async function startEncoder(manifest: ModelManifest, settings: StartSettings): Promise<Started> {
  const { onProgress, signal } = settings;
  const plan = await choosePlan(manifest, settings);
  const dtype = chooseDtype(settings.dtype, plan === 'measure' || settings.device === 'auto' ? 'auto' : plan, manifest);
  // Nobody needs the files of an encoder that did not start.
  const stop = new AbortController();
  const until = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
  const files = fetchModelFiles(manifest, dtype, onProgress, settings.requests, until);
  const open = (device: Device, keepFiles: boolean, limit = signal) =>
    openSession({ device, files, keepFiles, dim: manifest.dim, workers: settings.workers, signal: limit });

  try {
    let session: WorkerSession;
    if (plan === 'measure') {
      session = await openFaster(manifest.fingerprint, open, settings);
    } else if (plan === 'webgpu') {
      session = await openOr(open, onProgress, signal);
    } else {
      session = await openCpu(open, false, signal);
    }
    onProgress({ status: 'ready', device: session.device, dtype });
    return { session, dtype };
  } catch (error) {
    stop.abort(error);
    throw error;
  }
}

/** Starts the CPU encoder after the GPU was lost, from the files that are already kept. */
export async function restartOnCpu(manifest: ModelManifest, dtype: Dtype, settings: StartSettings): Promise<Started> {
  const files: Promise<ModelFiles> = fetchModelFiles(manifest, dtype, settings.onProgress, settings.requests, settings.signal);
  const session = await openCpu(
    (device, keepFiles) =>
      openSession({
        device,
        files,
        keepFiles,
        dim: manifest.dim,
        workers: settings.workers,
        signal: settings.signal,
      }),
    false,
    settings.signal,
  );
  settings.onProgress({ status: 'ready', device: 'cpu', dtype });
  return { session, dtype };
}

type Open = (device: Device, keepFiles: boolean, limit?: AbortSignal) => Promise<WorkerSession>;

async function choosePlan(manifest: ModelManifest, settings: StartSettings): Promise<Device | 'measure'> {
  if (settings.device === 'cpu') return 'cpu';
  const obstacle = await webgpuObstacle();
  settings.signal?.throwIfAborted();
  if (obstacle === undefined) {
    return settings.device === 'webgpu' ? 'webgpu' : (recallDevice(manifest.fingerprint) ?? 'measure');
  }
  if (settings.device === 'webgpu') {
    settings.onProgress({ status: 'fallback', from: 'webgpu', to: 'cpu', reason: obstacle });
  }
  return 'cpu';
}

async function openCpu(open: Open, keepFiles: boolean, signal: AbortSignal | undefined): Promise<WorkerSession> {
  try {
    return await open('cpu', keepFiles);
  } catch (error) {
    signal?.throwIfAborted();
    if (!isDeviceFailure(error)) throw error;
    const fix = error instanceof WorkerFailure ? error.fix : undefined;
    throw new EncoderError(`the question encoder could not be started: ${messageOf(error)}`, fix, { cause: error });
  }
}

/** WebGPU, or the CPU when it does not start. */
async function openOr(open: Open, onProgress: ProgressListener, signal: AbortSignal | undefined): Promise<WorkerSession> {
  try {
    return await open('webgpu', true);
  } catch (error) {
    signal?.throwIfAborted();
    if (!isDeviceFailure(error)) throw error;
    onProgress({ status: 'fallback', from: 'webgpu', to: 'cpu', reason: messageOf(error) });
    return openCpu(open, false, signal);
  }
}

/** Times both devices on the same weights file, keeps the faster and remembers which it was. */
async function openFaster(fingerprint: string, open: Open, settings: StartSettings): Promise<WorkerSession> {
  const { onProgress, signal } = settings;
  const cpu = await openCpu(open, true, signal);
  const onAbort = () => cpu.end(signal!.reason as Error);
  signal?.addEventListener('abort', onAbort, { once: true });
  let gpu: WorkerSession | undefined;
  try {
    const cpuTime = await cpu.measure();
    onProgress({ status: 'measure', device: 'cpu', milliseconds: cpuTime });
    const limit = new AbortController();
    const timer = setTimeout(() => {
      const slow = new Error(`WebGPU was not ready within ${WEBGPU_BUDGET / 1000} s`);
      limit.abort(slow);
      gpu?.end(slow);
    }, WEBGPU_BUDGET);
    let gpuTime = Infinity;
    try {
      gpu = await open('webgpu', false, signal ? AbortSignal.any([signal, limit.signal]) : limit.signal);
      gpuTime = await gpu.measure();
      onProgress({ status: 'measure', device: 'webgpu', milliseconds: gpuTime });
    } catch (error) {
      signal?.throwIfAborted();
      onProgress({ status: 'fallback', from: 'webgpu', to: 'cpu', reason: messageOf(error) });
    } finally {
      clearTimeout(timer);
    }
    signal?.throwIfAborted();
    const faster = gpu && gpuTime < cpuTime ? gpu : cpu;
    rememberDevice(fingerprint, faster.device);
    const slower = faster === cpu ? gpu : cpu;
    slower?.end(new Error('the other device is faster'));
    return faster;
  } catch (error) {
    cpu.end(error as Error);
    gpu?.end(error as Error);
    throw error;
  } finally {
    signal?.removeEventListener('abort', onAbort);
  }
}

/** A failed download or a wrong file is no reason to try another device. */
function isDeviceFailure(error: unknown): boolean {
  return !(error instanceof DprWebError);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
