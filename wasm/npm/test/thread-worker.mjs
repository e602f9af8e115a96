import { Worker } from 'node:worker_threads';
import { pathToFileURL } from 'node:url';

/** What a script in a thread needs to take itself for a web worker. */
const SCOPE = `
const { parentPort, workerData } = require('node:worker_threads');
globalThis.postMessage = (message, transfer) => parentPort.postMessage(message, transfer);
globalThis.addEventListener = (type, listener) => {
  if (type === 'message') parentPort.on('message', (data) => listener({ data }));
};
import(workerData);
`;

/** Runs a worker's script as it was built, in a thread of Node that looks like a web worker from both sides. */
export class ThreadWorker {
  #thread;

  constructor(file) {
    this.#thread = new Worker(SCOPE, { eval: true, workerData: pathToFileURL(file).href });
    this.#thread.on('message', (data) => this.onmessage?.({ data }));
    this.#thread.on('error', (error) => this.onerror?.({ message: error.message }));
  }

  postMessage(message, transfer) {
    this.#thread.postMessage(message, transfer);
  }

  terminate() {
    void this.#thread.terminate();
  }
}
