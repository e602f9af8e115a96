import type { Device } from '../types/device.js';
import { watchDeviceLoss } from './device-watch.js';
import { median } from './median.js';
import { HELLO, PROTOCOL, type Command, type Reply } from './protocol.js';
import { ModuleError, startModule, type WasmModule, type WasmQuestionEncoder } from './wasm-module.js';

// What every worker entry does: starts one module, encodes one question after another. It touches no
// network but the module's own file, and no storage.

/** Typical length, about 16 tokens; encoded to warm up and to measure. Never sent anywhere. */
const SAMPLE = 'which team won the championship game in the year two thousand and sixteen';
const MEASURE_RUNS = 7;
/** A slow device is known to be slow before it has run that often, in milliseconds. */
const MEASURE_BUDGET = 2000;

interface WorkerScope {
  postMessage(message: Reply, transfer?: Transferable[]): void;
  addEventListener(type: 'message', listener: (event: MessageEvent<Command>) => void): void;
  addEventListener(type: 'error', listener: (event: ErrorEvent) => void): void;
  addEventListener(type: 'unhandledrejection', listener: (event: PromiseRejectionEvent) => void): void;
}
type Work = Exclude<Command, { type: 'hello' }>;
const scope = globalThis as unknown as WorkerScope;

let modules: Partial<Record<Device, WasmModule>> = {};
let module: WasmModule | undefined;
let encoder: WasmQuestionEncoder | undefined;
let queue: Promise<void> = Promise.resolve();

/**
 * Says hello and answers commands from now on, with these modules. In a worker only: importing an entry
 * elsewhere (a server that renders pages) does nothing.
 */
export function serve(offered: Partial<Record<Device, WasmModule>>): void {
  if (typeof scope.postMessage !== 'function' || typeof scope.addEventListener !== 'function') return;
  if (globalThis.document !== undefined) return;
  modules = offered;
  scope.addEventListener('message', ({ data }) => {
    // At once, whatever else is being done: the page wants to know that somebody is here.
    if (data.type === 'hello') sayHello();
    else queue = queue.then(() => run(data));
  });
  // A panic inside a callback of the module reaches no promise of ours.
  scope.addEventListener('error', (event) => fatal(event.message));
  scope.addEventListener('unhandledrejection', (event) => fatal(messageOf(event.reason)));
  sayHello();
}

function sayHello(): void {
  scope.postMessage({ type: 'hello', id: HELLO, protocol: PROTOCOL, address: globalThis.location?.href ?? '' });
}

async function run(command: Work): Promise<void> {
  try {
    await answer(command);
  } catch (error) {
    // A trap (a Rust panic) leaves the module's memory in an unknown state.
    if (error instanceof WebAssembly.RuntimeError || (command.type === 'encode' && !(await stillWorks()))) {
      console.error(error);
      fatal(messageOf(error));
    }
    const fix = error instanceof ModuleError ? error.fix : undefined;
    scope.postMessage({ type: 'failed', id: command.id, message: messageOf(error), fix });
  }
}

async function answer(command: Work): Promise<void> {
  const { id } = command;
  switch (command.type) {
    case 'init': {
      const wanted = modules[command.device];
      if (!wanted) {
        throw new ModuleError(
          `this worker has no module for the device ${command.device}`,
          'Let `createWorker` return a worker for the device it is given, or one that runs `dpr-web/worker`.',
        );
      }
      if (command.device === 'webgpu') watchDeviceLoss(fatal);
      await startModule(wanted, command.wasm, alive);
      module = wanted;
      scope.postMessage({ type: 'done', id });
      return;
    }
    case 'load': {
      if (!module) throw new Error('`load` came before `init`');
      const { config, tokenizer, weights } = command.files;
      encoder = await module.QuestionEncoder.load(config, tokenizer, weights);
      alive();
      // The first question compiles shaders or code; better now than when somebody waits.
      await encoder.encode(SAMPLE);
      const { dim, maxTokens, device } = encoder;
      scope.postMessage({ type: 'loaded', id, dim, maxTokens, device });
      return;
    }
    case 'encode': {
      // A copy: the module may hand out a view of its own memory, which cannot be transferred.
      const vector = new Float32Array(await loaded().encode(command.text));
      scope.postMessage({ type: 'vector', id, vector }, [vector.buffer]);
      return;
    }
    case 'measure': {
      const times: number[] = [];
      const end = performance.now() + MEASURE_BUDGET;
      while (times.length < MEASURE_RUNS && (times.length === 0 || performance.now() < end)) {
        const start = performance.now();
        await loaded().encode(SAMPLE);
        times.push(performance.now() - start);
      }
      scope.postMessage({ type: 'measured', id, milliseconds: median(times) });
      return;
    }
  }
}

/** Tells a question that cannot be encoded from a device that cannot encode any more. */
async function stillWorks(): Promise<boolean> {
  try {
    await loaded().encode(SAMPLE);
    return true;
  } catch {
    return false;
  }
}

function alive(): void {
  scope.postMessage({ type: 'alive' });
}

function loaded(): WasmQuestionEncoder {
  if (!encoder) throw new Error('`encode` came before `load`');
  return encoder;
}

function fatal(message: string): void {
  scope.postMessage({ type: 'fatal', message });
}

function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  // What follows is the chain of causes and a backtrace: the console has them.
  return text.split('\n', 1)[0]!;
}
