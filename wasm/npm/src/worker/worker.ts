import { serve } from './serve.js';
import { cpu } from './wasm-cpu.js';
import { webgpu } from './wasm-webgpu.js';

// The entry `dpr-web/worker`, for either device: one script, also where a bundler makes no second file for
// a worker. It has nothing but side effects: package.json lists it among them.
serve({ cpu, webgpu });
