import type { Device } from '../types/device.js';
import { Engine, messageOf } from './engine.js';
import { hello, type Command, type Reply } from './protocol.js';
import type { WasmModule } from './wasm-module.js';

// What every dedicated worker does: starts one module, encodes one question after another.

interface WorkerScope {
  postMessage(message: Reply, transfer?: Transferable[]): void;
  addEventListener(type: 'message', listener: (event: MessageEvent<Command>) => void): void;
  addEventListener(type: 'error', listener: (event: ErrorEvent) => void): void;
  addEventListener(type: 'unhandledrejection', listener: (event: PromiseRejectionEvent) => void): void;
}
const scope = globalThis as unknown as WorkerScope;

/**
 * Says hello and answers commands from now on, with these modules. In a worker only: importing an entry
 * elsewhere (a server that renders pages) does nothing.
 */
export function serve(offered: Partial<Record<Device, WasmModule>>): void {
  if (typeof scope.postMessage !== 'function' || typeof scope.addEventListener !== 'function') return;
  if (globalThis.document !== undefined) return;
  const post = (message: Reply, transfer?: Transferable[]) => scope.postMessage(message, transfer);
  const fatal = (message: string) => post({ type: 'fatal', message });
  const sayHello = () => post(hello());
  const engine = new Engine(offered, fatal);
  let queue: Promise<void> = Promise.resolve();
  scope.addEventListener('message', ({ data }) => {
    // At once, whatever else is being done: the page wants to know that somebody is here.
    if (data.type === 'hello') sayHello();
    else queue = queue.then(() => engine.run(data, post));
  });
  // A panic inside a callback of the module reaches no promise of ours.
  scope.addEventListener('error', (event) => fatal(event.message));
  scope.addEventListener('unhandledrejection', (event) => fatal(messageOf(event.reason)));
  sayHello();
}
