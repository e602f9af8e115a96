import { serve } from './serve.js';
import { webgpu } from './wasm-webgpu.js';

// The entry `dpr-web/worker/webgpu`. It has nothing but side effects: package.json lists it among them.
serve({ webgpu });
