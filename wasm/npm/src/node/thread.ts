import { parentPort } from 'node:worker_threads';
import { fileFetch } from './files.js';

// What runs in a thread: the worker of browsers, with what it expects of a browser.
if (parentPort) {
  const port = parentPort;
  Object.assign(globalThis, {
    postMessage: (message: unknown, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer),
    addEventListener: (type: string, listener: (event: { data: unknown }) => void) => {
      if (type === 'message') port.on('message', (data) => listener({ data }));
    },
    // The module's code is a file beside the package's scripts.
    fetch: fileFetch(globalThis.fetch, { readsFiles: true }),
  });
  void import('../worker/worker-cpu.js');
}
