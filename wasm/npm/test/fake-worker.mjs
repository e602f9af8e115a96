import { fakeFetch, fileOf, someBytes } from './helpers.mjs';

const DIM = 4;

/**
 * Stands in for the worker and its module: a "vector" is the length of the text, `dim` times. The
 * script says per device what goes wrong: a message for a failed command, `fatal`, or `never`; and what becomes of the
 * hello, which has no device yet.
 */
export class FakeWorker {
  terminated = false;
  device;
  #script;

  constructor(script) {
    this.#script = script;
  }

  postMessage(command) {
    if (command.type === 'init') {
      this.device = command.device;
      this.wasm = command.wasm;
    }
    const plan = command.type === 'hello' ? this.#script.hello : this.#script[this.device]?.[command.type];
    setTimeout(() => {
      if (this.terminated || plan === 'never') return;
      this.onmessage({ data: this.#reply(command, plan) });
    }, 1);
  }

  terminate() {
    this.terminated = true;
  }

  #reply({ type, id, text }, plan) {
    if (plan === 'fatal') return { type: 'fatal', message: 'unreachable executed' };
    if (typeof plan === 'string') return { type: 'failed', id, message: plan };
    switch (type) {
      case 'hello':
        return { type, id, protocol: plan?.protocol ?? 1, address: 'https://page.test/worker.js' };
      case 'init':
        return { type: 'done', id };
      case 'load':
        return { type: 'loaded', id, dim: this.#script[this.device]?.dim ?? DIM, maxTokens: 64, device: this.device };
      case 'encode':
        return { type: 'vector', id, vector: new Float32Array(DIM).fill(text.length) };
      case 'measure':
        return { type: 'measured', id, milliseconds: plan ?? 10 };
    }
  }
}

/** A manifest whose files a fake `fetch` serves until `restore` is called: after the test, since a fallback fetches again. */
export function tinyModel() {
  const files = new Map();
  const file = (name, length) => {
    const bytes = someBytes(length);
    files.set(`https://server.test/${name}`, bytes);
    return fileOf(bytes, name);
  };
  const manifest = {
    format_version: 1,
    name: 'tiny',
    fingerprint: 'f'.repeat(64),
    dim: DIM,
    similarity: 'dot',
    family: 'bert',
    max_question_tokens: 64,
    encoder: { config: file('config.json', 10), tokenizer: file('tokenizer.json', 20) },
    weights: { f16: file('w.f16', 60), q8: file('w.q8', 30) },
  };
  const { restore } = fakeFetch((url) => new Response(files.get(url)));
  return { manifest, restore };
}
