import { recallDevice, rememberDevice } from '../device/remembered-device.js';
import { savesData, webgpuObstacle } from '../device/webgpu-support.js';
import type { Device } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import type { ProgressListener } from '../types/progress.js';
import { median } from '../worker/median.js';
import { isDeviceFailure, messageOf } from './device-failure.js';
import { openCpu, type Open } from './open-cpu.js';
import type { StartSettings } from './start-settings.js';
import type { WorkerSession } from './worker-session.js';

// What only browsers with WebGPU need: a script of its own. The page has the files there, as two workers may need them.

export { fetchModelFiles } from '../weights/model-files.js';

const MEASURE_RUNS = 7;
/** A slow device is known to be slow before it has run that often, in milliseconds. */
const MEASURE_BUDGET = 2000;

/** On which device to start; `measure`: on the CPU, and to time WebGPU afterwards. */
export async function choosePlan(manifest: ModelManifest, settings: StartSettings): Promise<Device | 'measure'> {
  const obstacle = await webgpuObstacle();
  settings.signal?.throwIfAborted();
  if (obstacle === undefined) {
    if (settings.device === 'webgpu') return 'webgpu';
    return recallDevice(manifest) ?? (settings.measures && !savesData() ? 'measure' : 'cpu');
  }
  if (settings.device === 'webgpu') {
    settings.onProgress({ status: 'fallback', from: 'webgpu', to: 'cpu', reason: obstacle });
  }
  return 'cpu';
}

/** WebGPU, or the CPU when it does not start. */
export async function openOr(open: Open, onProgress: ProgressListener, signal: AbortSignal): Promise<WorkerSession> {
  try {
    const session = await open('webgpu', true);
    fetchWords();
    return session;
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
export async function findFaster(
  cpu: WorkerSession,
  open: Open,
  manifest: ModelManifest,
  { onProgress, life }: StartSettings,
): Promise<WorkerSession | undefined> {
  let gpu: WorkerSession | undefined;
  let isStarted = false;
  try {
    gpu = await open('webgpu', false, life, () => (isStarted = true));
    const milliseconds = await measure(gpu);
    onProgress({ status: 'measure', device: 'webgpu', milliseconds });
    const cpuTime = await measure(cpu);
    onProgress({ status: 'measure', device: 'cpu', milliseconds: cpuTime });
    const faster = milliseconds < cpuTime ? gpu : cpu;
    rememberDevice(manifest, faster.device);
    if (faster === gpu) {
      fetchWords();
      return gpu;
    }
    gpu.end(new Error('the other device is faster'));
  } catch (error) {
    gpu?.end(error as Error);
    if (life.aborted) return undefined;
    if (isStarted) rememberDevice(manifest, 'cpu');
    onProgress({ status: 'fallback', from: 'webgpu', to: 'cpu', reason: messageOf(error) });
  }
  return undefined;
}

/** Fetches the words for a worker that does not start: the GPU may be lost without a network, and the CPU's worker be missing. */
function fetchWords(): void {
  import('../worker/explain-failure.js').catch(() => undefined);
}

/** Median milliseconds for one question of usual length, in runs of one each: questions go before. */
async function measure(session: WorkerSession): Promise<number> {
  const times: number[] = [];
  const end = performance.now() + MEASURE_BUDGET;
  while (times.length < MEASURE_RUNS && (times.length === 0 || performance.now() < end)) {
    times.push((await session.ask({ type: 'measure' }, 'measured')).milliseconds);
  }
  return median(times);
}
