import { readFileSync } from 'node:fs';
import type { Page, Worker } from '@playwright/test';
import { packageFile, type Interceptor } from './gateway.ts';

const HOOK = `
  globalThis.devices = [];
  const request = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = async function (...a) {
    const device = await request.apply(this, a);
    devices.push(device);
    return device;
  };\n`;

/** Puts a line before the worker's own code that keeps the GPU devices it requests: the product has no such hook. */
export const exposeGpuDevices: Interceptor = (request, response) => {
  if (!request.path.endsWith('/worker/worker-webgpu.js')) return false;
  response.setHeader('content-type', 'text/javascript');
  response.end(HOOK + readFileSync(packageFile('dist/worker/worker-webgpu.js'), 'utf8'));
  return true;
};

/** Waits for the worker that has the GPU; ask before it starts. */
export function gpuWorker(page: Page): Promise<Worker> {
  return page.waitForEvent('worker', (worker) => worker.url().endsWith('/worker-webgpu.js'));
}

/** Loses the worker's GPU devices, as a driver that is reset does. */
export async function loseGpu(worker: Promise<Worker>): Promise<void> {
  await (await worker).evaluate(() => (globalThis as unknown as { devices: { destroy(): void }[] }).devices.forEach((device) => device.destroy()));
}
