import type { Device, WasmBuild } from '../types/device.js';

/**
 * Starts the worker for a device. The static `new Worker(new URL(…))` that bundlers look for; they must stay in
 * this form. The names differ because webpack makes them the names of the files.
 */
export function spawnWorker(device: Device): Worker {
  try {
    return device === 'webgpu'
      ? new Worker(new URL('./worker-webgpu.js', import.meta.url), { type: 'module', name: 'dpr-web-webgpu' })
      : new Worker(new URL('./worker-cpu.js', import.meta.url), { type: 'module', name: 'dpr-web-cpu' });
  } catch (error) {
    const script = spawnedScript(device);
    if (new URL(script).origin === globalThis.location?.origin) throw error;
    // Browsers start no worker of another origin, as of a CDN, but one of the page's own may import its script.
    const source = new Blob([`import ${JSON.stringify(script)};`], { type: 'text/javascript' });
    return new Worker(URL.createObjectURL(source), { type: 'module', name: `dpr-web-${device}` });
  }
}

/**
 * Where {@link spawnWorker} looks for its script, for messages. Right as long as no bundler has moved the script,
 * and a bundler that leaves the addresses alone is the usual reason why none is there.
 */
export function spawnedScript(device: Device): string {
  const here: string = import.meta.url;
  return new URL(`worker-${device}.js`, here).href;
}

/** The module of a build, beside the page's own script: a worker may have no address to look from. */
export function spawnedWasm(build: WasmBuild): URL {
  if (build === 'webgpu') return new URL('../../wasm/webgpu/dpr_wasm_bg.wasm', import.meta.url);
  return build === 'cpu'
    ? new URL('../../wasm/cpu/dpr_wasm_bg.wasm', import.meta.url)
    : new URL('../../wasm/relaxed/dpr_wasm_bg.wasm', import.meta.url);
}
