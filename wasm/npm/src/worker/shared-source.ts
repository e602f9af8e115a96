import type { LoadOptions } from '../types/options.js';
import type { EncoderWorker, WorkerSource } from './encoder-worker.js';

/**
 * Shared workers for the CPU, as long as they work, and dedicated ones for everything else; `undefined` where the
 * browser has no shared workers, or no Web Locks to tell the worker which tabs are still there.
 */
export function sharedSource({ createWorker }: LoadOptions, own: WorkerSource): WorkerSource | undefined {
  const locks = (globalThis.navigator as Partial<Navigator> | undefined)?.locks;
  if (typeof globalThis.SharedWorker !== 'function' || !locks) return undefined;
  let isSharing = true;
  const isOwn = createWorker === undefined;
  return {
    ...own,
    create(device) {
      if (!isSharing || device !== 'cpu') return own.create(device);
      const worker = isOwn ? spawnShared() : createWorker(device);
      return 'port' in worker ? place(worker, locks) : worker;
    },
    script: (device) => (isOwn && isSharing && device === 'cpu' ? sharedScript() : undefined),
    unshare(device) {
      // Nobody knows what else the page could make.
      const wasSharing = isSharing && isOwn && device === 'cpu';
      if (wasSharing) isSharing = false;
      return wasSharing;
    },
  };
}

/** The static `new SharedWorker(new URL(…))` that bundlers look for; it must stay in this form. */
function spawnShared(): SharedWorker {
  return new SharedWorker(new URL('./worker-cpu.js', import.meta.url), { type: 'module', name: 'dpr-web-shared' });
}

/** Where {@link spawnShared} looks for its script, for messages. */
function sharedScript(): string {
  const here: string = import.meta.url;
  return new URL('worker-cpu.js', here).href;
}

/** This page's place in a shared worker, which it has until it is terminated or its tab is gone. */
function place(shared: SharedWorker, locks: LockManager): EncoderWorker {
  const { port } = shared;
  const lock = `dpr-web:page:${globalThis.crypto.randomUUID()}`;
  let leave!: () => void;
  const left = new Promise<void>((resolve) => (leave = resolve));
  // The worker asks for the same lock, and gets it when this page does not hold it any more.
  const holding = locks.request(lock, () => {
    port.postMessage({ type: 'join', lock });
    return left;
  });
  // Without the lock it is known to be gone when it says so, or when the browser ends the worker.
  holding.catch(() => undefined);
  const worker: EncoderWorker = {
    isShared: true,
    onmessage: null,
    onmessageerror: null,
    onerror: null,
    postMessage: (message, transfer) => port.postMessage(message, transfer),
    terminate() {
      port.postMessage({ type: 'leave' });
      port.close();
      leave();
    },
  };
  port.onmessage = (event) => worker.onmessage?.(event);
  port.onmessageerror = (event) => worker.onmessageerror?.(event);
  shared.onerror = (event) => worker.onerror?.(event as ErrorEvent);
  return worker;
}
