import { ManifestError } from '../errors/manifest-error.js';
import type { DeviceChoice, Dtype, DtypeChoice } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import { offeredDtype } from './offered-dtype.js';

/**
 * The weights format to download.
 * @throws {@link ManifestError} when one was asked for that the model does not offer
 */
export function chooseDtype(choice: DtypeChoice, device: DeviceChoice, manifest: ModelManifest): Dtype {
  const found = offeredDtype(choice, device, manifest);
  if (!found) {
    throw new ManifestError(
      `the model ${manifest.name} has no ${choice} weights, it offers ${Object.keys(manifest.weights).join(', ')}`,
      'Choose one of those, or `auto`.',
      'no_weights',
    );
  }
  return found;
}
