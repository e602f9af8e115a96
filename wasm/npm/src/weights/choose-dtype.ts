import { ManifestError } from '../errors/manifest-error.js';
import type { DeviceChoice, Dtype, DtypeChoice } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';

/**
 * The weights format to download.
 * @throws {@link ManifestError} when one was asked for that the model does not offer
 */
export function chooseDtype(choice: DtypeChoice, device: DeviceChoice, manifest: ModelManifest): Dtype {
  const offered = Object.keys(manifest.weights) as Dtype[];
  const order: Dtype[] = choice !== 'auto' ? [choice] : device === 'webgpu' ? ['f16', 'q8', 'f32'] : ['q8', 'f16', 'f32'];
  const found = order.find((dtype) => offered.includes(dtype));
  if (!found) {
    throw new ManifestError(
      `the model ${manifest.name} has no ${choice} weights, it offers ${offered.join(', ')}`,
      'Choose one of those, or `auto`.',
      'no_weights',
    );
  }
  return found;
}
