import { serveShared } from './serve-shared.js';
import { serve } from './serve.js';
import { cpu } from './wasm-cpu.js';

// The entry `dpr-web/worker/cpu`. It has nothing but side effects: package.json lists it among them.
// One script for a worker of a page and for one of all its tabs: two that share modules would have Parcel put those into
// a file of their own, where it loses them.
serve({ cpu });
serveShared({ cpu });
