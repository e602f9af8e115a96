import { forgetDevice } from '../device/remembered-device.js';
import type { ModelManifest } from '../types/manifest.js';
import { evictOldModels, noteModel } from '../weights/old-models.js';
import { within } from '../wire/within.js';
import { openCpu } from './open-cpu.js';
import { opener, type Started } from './start-encoder.js';
import type { StartSettings } from './start-settings.js';
import type { WorkerSession } from './worker-session.js';

// What an encoder needs after it has started: a script of its own, which pages fetch as soon as the encoder has started,
// so that it is there when the network is not.

/** Starts the CPU encoder after a worker was lost, from the files that are already kept. */
export async function restart(
  manifest: ModelManifest,
  { session: lost, dtype }: Started,
  reason: Error,
  settings: StartSettings,
): Promise<WorkerSession> {
  const { onProgress, life, workers } = settings;
  // What ended one shared worker would end the next, for every tab.
  workers.unshare?.(lost.device);
  if (lost.device === 'webgpu') {
    forgetDevice(manifest.fingerprint);
    onProgress({ status: 'fallback', from: 'webgpu', to: 'cpu', reason: reason.message });
  }
  return within([life], (stop) => openCpu(opener(manifest, dtype, settings, stop.signal), false, stop.signal));
}

/** Notes which files the model has, and removes those of models before it. Never rejects. */
export async function tidy(
  address: string,
  manifest: ModelManifest,
  keepOldModels: boolean | undefined,
  previous: ModelManifest | undefined,
): Promise<void> {
  if (previous) forgetDevice(previous.fingerprint);
  await noteModel(address, manifest);
  if (!keepOldModels) await evictOldModels();
}
