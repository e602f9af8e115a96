import type { DeviceChoice, Dtype, DtypeChoice } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';

/** The weights format to download; `undefined` when one was asked for that the model does not offer. */
export function offeredDtype(choice: DtypeChoice, device: DeviceChoice, { weights }: ModelManifest): Dtype | undefined {
  const order: Dtype[] = choice !== 'auto' ? [choice] : device === 'webgpu' ? ['f16', 'q8', 'q4', 'f32'] : ['q8', 'q4', 'f16', 'f32'];
  return order.find((dtype) => dtype in weights);
}
