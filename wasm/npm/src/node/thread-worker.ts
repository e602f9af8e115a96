import { Worker as Thread } from 'node:worker_threads';
import type { Command, Reply } from '../worker/protocol.js';

/** A thread in the place of a web worker. It keeps the process alive only while it is at work. */
export class ThreadWorker {
  onmessage: ((event: { data: Reply }) => void) | null = null;
  onerror: ((event: { message: string }) => void) | null = null;
  onmessageerror: (() => void) | null = null;
  readonly #thread = new Thread(new URL('./thread.js', import.meta.url));
  #asked = 0;

  constructor() {
    this.#thread.on('message', (data: Reply) => {
      if ('id' in data && data.id === this.#asked) this.#thread.unref();
      this.onmessage?.({ data });
    });
    this.#thread.on('error', ({ message }) => this.onerror?.({ message }));
    this.#thread.on('messageerror', () => this.onmessageerror?.());
  }

  postMessage(command: Command, transfer: ArrayBuffer[] = []): void {
    this.#asked = command.id;
    this.#thread.ref();
    this.#thread.postMessage(command, transfer);
  }

  terminate(): void {
    void this.#thread.terminate();
  }
}
