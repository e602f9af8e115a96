import { serveShared } from './serve-shared.js';
import { cpu } from './wasm-cpu.js';

// The entry `dpr-web/worker/shared`. It has nothing but side effects: package.json lists it among them.
serveShared({ cpu });
