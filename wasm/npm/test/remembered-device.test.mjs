import assert from 'node:assert/strict';
import test from 'node:test';
import { forgetDevice, recallDevice, rememberDevice } from '../dist/device/remembered-device.js';

// Node 20 has no `navigator`; later ones have their own.
Object.defineProperty(globalThis, 'navigator', { value: { userAgent: 'this browser' }, configurable: true });

function withStorage(storage, body) {
  Object.defineProperty(globalThis, 'localStorage', { value: storage, configurable: true });
  try {
    body();
  } finally {
    delete globalThis.localStorage;
  }
}
/** A manifest, as far as it is read. */
const model = (sha256, fingerprint = 'f'.repeat(64)) => ({ fingerprint, encoder: { config: { sha256 } } });

function inMemory() {
  const map = new Map();
  return { getItem: (key) => map.get(key) ?? null, setItem: (key, value) => map.set(key, value), removeItem: (key) => map.delete(key) };
}

test('the faster device is remembered per encoder, for a month', () =>
  withStorage(inMemory(), () => {
    rememberDevice(model('a'), 'webgpu', 1000);
    assert.equal(recallDevice(model('a'), 2000), 'webgpu');
    assert.equal(recallDevice(model('b'), 2000), undefined);
    assert.equal(recallDevice(model('a'), 1000 + 31 * 24 * 3600 * 1000), undefined);
    forgetDevice(model('a'));
    assert.equal(recallDevice(model('a'), 2000), undefined);
  }));

test('what was measured of a model is not that of a retrained one, which has the same config', () =>
  withStorage(inMemory(), () => {
    const retrained = model('a', 'e'.repeat(64));
    rememberDevice(model('a'), 'webgpu', 1000);
    assert.equal(recallDevice(retrained, 2000), undefined);
    rememberDevice(retrained, 'cpu', 1000);
    forgetDevice(model('a'));
    assert.deepEqual([recallDevice(model('a'), 2000), recallDevice(retrained, 2000)], [undefined, 'cpu']);
  }));

test('another browser version measures again', (t) => {
  const { userAgent } = navigator;
  t.after(() => (navigator.userAgent = userAgent));
  withStorage(inMemory(), () => {
    rememberDevice(model('m'), 'webgpu', 1000);
    assert.equal(recallDevice(model('m'), 2000), 'webgpu');
    navigator.userAgent = 'a newer browser';
    assert.equal(recallDevice(model('m'), 2000), undefined);
  });
});

test('blocked storage remembers nothing and does not throw', () => {
  const blocked = new Proxy({}, { get: () => () => { throw new DOMException('no', 'SecurityError'); } });
  withStorage(blocked, () => {
    rememberDevice(model('m'), 'cpu');
    assert.equal(recallDevice(model('m')), undefined);
  });
});
