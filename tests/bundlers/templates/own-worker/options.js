export const options = {
  createWorker: () => new Worker('/assets/dpr-web-worker.js', { type: 'module' }),
  wasmUrl: { cpu: '/assets/cpu.wasm', relaxed: '/assets/relaxed.wasm', webgpu: '/assets/webgpu.wasm' },
};
