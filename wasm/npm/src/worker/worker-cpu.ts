import { serve } from './serve.js';
import { cpu } from './wasm-cpu.js';

// The entry `dpr-web/worker/cpu`. It has nothing but side effects: package.json lists it among them.
serve({ cpu });
