/** Starts the worker. The one static `new URL` that bundlers look for; it must stay in this form. */
export function spawnWorker(): Worker {
  return new Worker(new URL('./worker.js', import.meta.url), { type: 'module', name: 'dpr-web' });
}
