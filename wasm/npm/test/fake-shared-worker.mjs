import { serveShared } from '../dist/worker/serve-shared.js';
import { FakeWorker } from './fake-worker.mjs';

/** Web Locks of one origin. `vanish()` frees those that pages hold, as when their tabs are closed. */
export function fakeLocks() {
  const held = new Map();
  const gone = [];
  return {
    request(name, options, work = options) {
      const turn = (held.get(name) ?? Promise.resolve()).then(() => {
        options.signal?.throwIfAborted();
        return Promise.race([work(), new Promise((resolve) => gone.push({ name, resolve }))]);
      });
      held.set(name, turn.catch(() => undefined));
      return turn;
    },
    vanish(at) {
      gone.filter(({ name }) => name.startsWith('dpr-web:page:'))[at].resolve();
    },
  };
}

/**
 * Shared workers of one origin until `t` ends, in this thread, with the package's own code for them and a module whose
 * "vector" is the length of the text. `script` says what goes wrong: a text that `traps`, `answers` that wait for the test,
 * a worker that is `broken`.
 */
export function withSharedWorkers(t, script = {}) {
  const state = { loads: 0, freed: 0, workers: [], dedicated: [], texts: [], alive: undefined, timers: [], ports: [] };
  const locks = fakeLocks();
  const module = {
    init: async () => undefined,
    address: () => new URL('https://page.test/dpr_wasm_bg.wasm'),
    QuestionEncoder: {
      load: async () => {
        state.loads++;
        await script.loading;
        return {
          dim: 4,
          maxTokens: 64,
          device: 'cpu',
          free: () => state.freed++,
          tokenCount: (text) => text.length,
          async encode(text) {
            if (text.length > 30) return new Float32Array(4); // the sample
            state.texts.push(text);
            await script.answers?.(text);
            if (script.traps === text) throw new WebAssembly.RuntimeError('unreachable executed');
            return new Float32Array(4).fill(text.length);
          },
        };
      },
    },
  };
  class FakeSharedWorker {
    constructor(url, options) {
      if (script.broken === 'made') throw new DOMException('cannot be accessed', 'SecurityError');
      const { port1, port2 } = new MessageChannel();
      this.port = port1;
      state.ports.push(port1, port2);
      if (script.broken === 'loaded') setTimeout(() => this.onerror?.({ message: 'not found' }), 1);
      if (script.broken) return;
      if (!state.alive) {
        const scope = (state.alive = {
          onconnect: null,
          navigator: { locks },
          setTimeout: (work) => state.timers.push(work),
          close: () => (state.alive = state.alive === scope ? undefined : state.alive),
        });
        state.workers.push({ url: String(url), options });
        serveShared({ cpu: module }, scope);
      }
      const { alive } = state;
      setTimeout(() => alive.onconnect({ ports: [port2] }), 1);
    }
  }
  const original = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  Object.defineProperty(globalThis, 'navigator', { value: { userAgent: 'test', locks }, configurable: true });
  globalThis.SharedWorker = FakeSharedWorker;
  globalThis.Worker = class extends FakeWorker {
    constructor() {
      super({});
      state.dedicated.push(this);
    }
  };
  t.after(() => {
    delete globalThis.SharedWorker;
    delete globalThis.Worker;
    for (const port of state.ports) port.close();
    if (original) Object.defineProperty(globalThis, 'navigator', original);
    else delete globalThis.navigator;
  });
  return { state, locks };
}
