interface Gpu {
  requestAdapter(): Promise<object | null>;
}

/**
 * Why WebGPU cannot be used here, or `undefined` when there is an adapter. Asked before anything of
 * the WebGPU module is downloaded.
 */
export async function webgpuObstacle(): Promise<string | undefined> {
  const gpu = (globalThis.navigator as { gpu?: Gpu } | undefined)?.gpu;
  if (!gpu) return 'this browser has no WebGPU';
  try {
    return (await gpu.requestAdapter()) ? undefined : 'this browser offers no WebGPU adapter';
  } catch (error) {
    return `WebGPU failed: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** Whether the user asked the browser to save data (`Save-Data`): nothing is downloaded that could be done without. */
export function savesData(): boolean {
  return (globalThis.navigator as { connection?: { saveData?: boolean } } | undefined)?.connection?.saveData === true;
}
