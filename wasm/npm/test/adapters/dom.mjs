import { Window } from 'happy-dom';
import { fakeFetch } from '../helpers.mjs';
import { FakeWorker, tinyModel } from '../fake-worker.mjs';

/** A document, with these globals of its window, until `t` ends and `unmount` has been called. */
export function withDocument(t, names = [], unmount = () => {}) {
  const window = new Window({ url: 'https://page.test/' });
  const values = { window, document: window.document, navigator: window.navigator };
  for (const name of names) values[name] = window[name];
  const before = new Map(Object.keys(values).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]));
  for (const [name, value] of Object.entries(values)) Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  t.after(async () => {
    await unmount();
    for (const [name, descriptor] of before) {
      if (descriptor) Object.defineProperty(globalThis, name, descriptor);
      else delete globalThis[name];
    }
    await window.happyDOM.close();
  });
  return window.document;
}

/**
 * A server of the tiny model until `t` ends, which finds one passage, `about …`. Returns the workers that were made for
 * it and options for the client.
 */
export function withServer(t) {
  const { manifest, restore } = tinyModel();
  const files = globalThis.fetch;
  const server = fakeFetch((url, init) => {
    if (url.endsWith('/v1/model')) return Response.json(manifest);
    if (url.endsWith('/v1/search')) return Response.json({ hits: [{ id: '7', score: 1, title: 'Found', text: 'a passage' }], took_ms: 1 });
    return files(`https://server.test/${url.split('/').pop()}`, init);
  });
  t.after(() => {
    server.restore();
    restore();
  });
  const workers = [];
  const createWorker = () => {
    const worker = new FakeWorker({});
    workers.push(worker);
    return worker;
  };
  return { workers, calls: server.calls, options: { device: 'cpu', createWorker } };
}

/** Waits until `holds()`, and says what did not hold when that takes too long. */
export async function until(holds, what = String(holds)) {
  for (let tries = 0; tries < 2000; tries++) {
    if (holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  throw new Error(`in vain: ${what}`);
}
