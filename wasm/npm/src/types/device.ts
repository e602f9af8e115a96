/** Where questions are encoded. */
export type Device = 'webgpu' | 'cpu';

/** A WebAssembly module: a device's own, or `relaxed`, that of the CPU for engines with relaxed SIMD. */
export type WasmBuild = Device | 'relaxed';

/** A device, or `auto`: measure both once on this machine and remember the faster. */
export type DeviceChoice = 'auto' | Device;

/**
 * Format of the weights file that is downloaded. The encoder computes in 32-bit floats or 8-bit integers itself: `q4`, about half
 * of `q8` on the wire, is opened into 8 bits, and is there where the operator exported it.
 */
export type Dtype = 'f32' | 'f16' | 'q8' | 'q4';

/** A weights format, or `auto`: the smallest that suits the device. */
export type DtypeChoice = 'auto' | Dtype;
