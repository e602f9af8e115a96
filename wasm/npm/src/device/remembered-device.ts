import type { Device } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';

/** A driver or browser update may change which device is faster: measure again after a month. */
const MAX_AGE = 30 * 24 * 3600 * 1000;

/** What is read of a manifest. */
type Measured = Pick<ModelManifest, 'fingerprint' | 'encoder'>;

interface Entry {
  device: Device;
  userAgent: string;
  measuredAt: number;
}

/**
 * The device that was faster when it was measured for this model with this browser, if it was.
 * Never throws: where storage is blocked there is nothing to remember.
 */
export function recallDevice(manifest: Measured, now = Date.now()): Device | undefined {
  try {
    const entry = JSON.parse(localStorage.getItem(key(manifest)) ?? 'null') as Entry | null;
    if (!entry || entry.userAgent !== navigator.userAgent || now - entry.measuredAt > MAX_AGE) return undefined;
    return entry.device === 'webgpu' || entry.device === 'cpu' ? entry.device : undefined;
  } catch {
    return undefined;
  }
}

/** Remembers the faster device for the next visit. */
export function rememberDevice(manifest: Measured, device: Device, now = Date.now()): void {
  try {
    const entry: Entry = { device, userAgent: navigator.userAgent, measuredAt: now };
    localStorage.setItem(key(manifest), JSON.stringify(entry));
  } catch {
    // Blocked or full: measured again next time.
  }
}

/** Forgets the measurement, after the remembered device failed. */
export function forgetDevice(manifest: Measured): void {
  try {
    localStorage.removeItem(key(manifest));
  } catch {
    // As above.
  }
}

/** Of the fingerprint and the config: a server's own encoder and its small one have one fingerprint. */
function key(manifest: Measured): string {
  return `dpr-web:device:${manifest.fingerprint} ${manifest.encoder.config.sha256}`;
}
