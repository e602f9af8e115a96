/** Where questions are encoded. */
export type Device = 'webgpu' | 'cpu';

/** A device, or `auto`: measure both once on this machine and remember the faster. */
export type DeviceChoice = 'auto' | Device;

/** Format of the weights file that is downloaded. The encoder computes in 32-bit floats or 8-bit integers itself. */
export type Dtype = 'f32' | 'f16' | 'q8';

/** A weights format, or `auto`: the smallest that suits the device. */
export type DtypeChoice = 'auto' | Dtype;
