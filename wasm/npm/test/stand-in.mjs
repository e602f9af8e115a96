import { cpSync, mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const PACKAGE = fileURLToPath(new URL('..', import.meta.url));

/** An empty WebAssembly module. */
const WASM = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);
/** The same as an address that can be fetched anywhere. */
export const WASM_URL = `data:application/wasm;base64,${Buffer.from(WASM).toString('base64')}`;

/** A module's script in the shape that `wasm-bindgen --target web` gives it; a "vector" is the length of the text. */
const GLUE = `
let wasm;
export class QuestionEncoder {
  static async load(config, tokenizer, weights) {
    if (!wasm) throw new Error('not initialised');
    return new QuestionEncoder();
  }
  async encode(text) {
    return new Float32Array(4).fill(text.length);
  }
  tokenCount(text) {
    return text.length;
  }
  tokens(text) {
    return Array.from(text, (letter) => letter.charCodeAt(0));
  }
  get dim() { return 4; }
  get maxTokens() { return 64; }
  get device() { return 'DEVICE'; }
  free() {}
}
export class EncoderBuilder {
  static async begin() {
    if (!wasm) throw new Error('not initialised');
    return new EncoderBuilder();
  }
  push() {}
  sha256() { return ''; }
  finish() { return new QuestionEncoder(); }
  free() {}
}
export class Reader {
  static async load(config, tokenizer, weights, maxTokens, shared) {
    if (!wasm) throw new Error('not initialised');
    return new Reader();
  }
  async read(question, titles, texts, spans) {
    return Float64Array.from(texts.flatMap((text) => [text.length, 0, Math.min(4, text.length), 0.5]));
  }
  get maxTokens() { return 350; }
  get device() { return 'DEVICE'; }
  free() {}
}
export class LocalIndex {
  add() {}
  // Rows from the first number of the vector on, with scores that fall.
  search([first], k) {
    return Float64Array.from(Array.from({ length: k }, (_, at) => [first + at, 1 - at / 10]).flat());
  }
  free() {}
}
export class BucketIndex {
  constructor(projection, centroids) {
    this.buckets = centroids.length;
  }
  choose([first], probes, decoys) {
    return Uint32Array.from({ length: probes + decoys }, (_, at) => (first + 2 * at) % this.buckets).sort();
  }
  add() {}
  search(question, buckets, k) {
    const placed = (_, at) => [buckets[at % buckets.length], Math.floor(at / buckets.length), 1 - at / 10];
    return Float64Array.from(Array.from({ length: k }, placed).flat());
  }
  free() {}
}
export class CrossEncoder extends Reader {
  static async load() {
    return new CrossEncoder();
  }
  async score(question, titles, texts) {
    return Float32Array.from(texts, (text) => text.length);
  }
}
async function load(module, imports) {
  if (typeof Response === 'function' && module instanceof Response) {
    return await WebAssembly.instantiateStreaming(module, imports);
  }
  return await WebAssembly.instantiate(module, imports);
}
export function initSync() {
  return wasm;
}
export default async function __wbg_init(module_or_path) {
  if (module_or_path !== undefined) ({ module_or_path } = module_or_path);
  if (module_or_path === undefined) module_or_path = new URL('dpr_wasm_bg.wasm', import.meta.url);
  if (typeof module_or_path === 'string' || module_or_path instanceof URL) module_or_path = fetch(module_or_path);
  wasm = await load(await module_or_path, {});
  return wasm;
}
`;

/** A temporary folder that is removed after the test. */
export function temporaryFolder(t) {
  const folder = mkdtempSync(path.join(tmpdir(), 'dpr-web-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Puts the package into `folder`, built, with stand-ins for the WebAssembly modules: they are slow to build. */
export function standInPackage(folder) {
  for (const name of ['package.json', 'README.md', 'CHANGELOG.md', 'LICENSE-MIT', 'LICENSE-APACHE', 'THIRD_PARTY.txt', 'scripts', 'dist']) {
    cpSync(path.join(PACKAGE, name), path.join(folder, name), { recursive: true });
  }
  for (const device of ['cpu', 'relaxed', 'webgpu']) {
    mkdirSync(path.join(folder, 'wasm', device), { recursive: true });
    // The CPU's script is for both of its modules.
    if (device !== 'relaxed') writeFileSync(path.join(folder, 'wasm', device, 'dpr_wasm.js'), GLUE.replace('DEVICE', device));
    // Not the same bytes: a bundler would make one file of two.
    const name = Uint8Array.from([0, device.length + 1, device.length, ...Buffer.from(device)]);
    writeFileSync(path.join(folder, 'wasm', device, 'dpr_wasm_bg.wasm'), Buffer.concat([WASM, name]));
  }
  return folder;
}

/** A web application in a temporary folder, with these files, that has the package installed. */
export function standInApp(t, files) {
  const folder = temporaryFolder(t);
  standInPackage(path.join(folder, 'node_modules/dpr-web'));
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ type: 'module', private: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text);
  return folder;
}
