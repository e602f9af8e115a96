/** The little of WebGPU that is needed here; TypeScript's DOM library does not describe it yet. */
interface GpuDevice {
  readonly lost: Promise<{ reason: string; message: string }>;
}
interface GpuAdapterClass {
  prototype: { requestDevice(this: unknown, ...args: unknown[]): Promise<GpuDevice> };
}

/**
 * Calls `onLost` when a GPU device that this worker requests is lost. A module that waits for a lost
 * device may never answer, so its own error is not enough to go by. Affects this worker only.
 */
export function watchDeviceLoss(onLost: (message: string) => void): void {
  const adapterClass = (globalThis as { GPUAdapter?: GpuAdapterClass }).GPUAdapter;
  if (!adapterClass) return;
  const requestDevice = adapterClass.prototype.requestDevice;
  adapterClass.prototype.requestDevice = async function (...args) {
    const device = await requestDevice.apply(this, args);
    void device.lost.then(({ reason, message }) => {
      onLost(`the GPU device was lost (${reason || 'unknown reason'})${message ? `: ${message}` : ''}`);
    });
    return device;
  };
}
