import assert from 'node:assert/strict';
import test from 'node:test';
import { sharedTensors } from '../dist/reading/shared-tensors.js';

/** A safetensors file with this header. */
function file(header, data = [1, 2, 3, 4]) {
  const text = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return new Uint8Array(Buffer.concat([length, text, Buffer.from(data)]));
}

const tensor = (from, to) => ({ dtype: 'I8', shape: [to - from], data_offsets: [from, to] });

test('the tensors asked for make a file of their own, in the order of their names', () => {
  const whole = file({ __metadata__: { format: 'pt' }, a: tensor(0, 1), b: tensor(1, 3), c: tensor(3, 4) });
  assert.deepEqual(sharedTensors(whole, ['c', 'b', 'c'], 'it'), file({ c: tensor(0, 1), b: tensor(1, 3) }, [4, 2, 3]));
  // A view into a larger buffer, as of a file that was read.
  const view = new Uint8Array([9, ...whole]).subarray(1);
  assert.deepEqual(sharedTensors(view, ['a'], 'it'), file({ a: tensor(0, 1) }, [1]));
});

for (const [name, bytes] of [
  ['nothing', new Uint8Array()],
  ['a length alone', file('').subarray(0, 8)],
  ['a header that is cut short', file({ a: tensor(0, 1) }).subarray(0, 12)],
  ['a length beyond everything', new Uint8Array(16).fill(255)],
  ['a header that is no JSON', file('{')],
  ['a header of null', file('null')],
  ['a tensor of null', file({ a: null })],
  ['no place', file({ a: { dtype: 'I8', shape: [1] } })],
  ['a place in words', file({ a: { ...tensor(0, 1), data_offsets: 'ab' } })],
  ['a place before the beginning', file({ a: tensor(-1, 1) })],
  ['a place beyond the end', file({ a: tensor(0, 5) })],
  ['a place that ends before it begins', file({ a: tensor(2, 1) })],
]) {
  test(`a file with ${name} is a ManifestError that names it`, () => {
    assert.throws(() => sharedTensors(bytes, ['a'], 'the q8 weights'), (error) => error.name === 'ManifestError' && error.message.startsWith('the q8 weights'));
  });
}
