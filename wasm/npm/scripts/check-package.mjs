// The script `prepack`: refuses to pack or publish a package without its code. `dist` and `wasm` are built, so a
// clean checkout has neither, and npm would leave them out without a word.
import { readFileSync, statSync } from 'node:fs';

const { exports, unpkg } = JSON.parse(readFileSync('package.json', 'utf8'));
const entries = Object.values(exports).flatMap((entry) => (typeof entry === 'string' ? entry : Object.values(entry)));
const modules = ['cpu', 'webgpu'].flatMap((device) => [`./wasm/${device}/dpr_wasm.js`, `./wasm/${device}/dpr_wasm_bg.wasm`]);
modules.push('./wasm/relaxed/dpr_wasm_bg.wasm');
const bundled = ['worker-cpu.js', 'worker-webgpu.js', 'reading.js'].map((name) => unpkg.replace('index.js', name));
const needed = new Set([unpkg, ...bundled, ...entries.filter((entry) => !entry.includes('*')), ...modules, './THIRD_PARTY.txt']);
const missing = [...needed].filter((file) => !(statSync(file, { throwIfNoEntry: false })?.size > 0));

if (missing.length > 0) {
  console.error(`dpr-web is not built, so it is not packed: ${missing.join(', ')} missing or empty.`);
  console.error('Run `cargo xtask npm` in the repository; it builds the modules and the scripts, and packs them.');
  process.exit(1);
}
