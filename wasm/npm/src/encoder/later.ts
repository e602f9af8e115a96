import { forgetDevice } from '../device/remembered-device.js';
import type { ModelManifest } from '../types/manifest.js';
import { evictOldModels, noteModel } from '../weights/old-models.js';
import { within } from '../wire/within.js';
import { openCpu } from './open-cpu.js';
import { opener, type Started } from './start-encoder.js';
import type { StartSettings } from './start-settings.js';
import type { WorkerSession } from './worker-session.js';

// What an encoder needs beside its start and after it: a script of its own, which pages fetch when an encoder begins to
// load, so that it is there when the network is not.

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
    forgetDevice(manifest);
    onProgress({ status: 'fallback', from: 'webgpu', to: 'cpu', reason: reason.message });
  }
  return within([life], (stop) => openCpu(opener(manifest, dtype, settings, stop.signal), false, stop.signal));
}

/**
 * Notes which files the model has, so that they stay while another encoder removes old ones, and, once it has started,
 * removes those of models before it. Rejects as the start does.
 */
export async function tidy(
  address: string,
  manifest: ModelManifest,
  started: Promise<unknown>,
  keepOldModels: boolean | undefined,
  previous: ModelManifest | undefined,
): Promise<void> {
  // The note of the model before stays: it is used should this one not start.
  await noteModel(`${address}#next`, manifest);
  await started;
  if (previous) forgetDevice(previous);
  await noteModel(address, manifest);
  if (!keepOldModels) await evictOldModels();
}
