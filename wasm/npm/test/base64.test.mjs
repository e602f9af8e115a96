import assert from 'node:assert/strict';
import test from 'node:test';
import { base64ToVector, vectorToBase64 } from '../dist/wire/base64.js';

test('a vector is written as little-endian 32-bit floats', () => {
  assert.equal(vectorToBase64(Float32Array.of(1, -2)), Buffer.from([0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]).toString('base64'));
});

for (const dim of [0, 1, 2, 3, 384, 768, 20_000]) {
  test(`${dim} numbers come back bit for bit`, () => {
    const vector = Float32Array.from({ length: dim }, (_, i) => Math.sin(i) / 3);
    assert.deepEqual(base64ToVector(vectorToBase64(vector)), vector);
  });
}

test('bytes that are no whole number of floats are refused', () => {
  assert.throws(() => base64ToVector(btoa('12345')), /5 bytes/);
});
