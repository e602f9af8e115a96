import assert from 'node:assert/strict';
import test from 'node:test';
import { chooseDtype } from '../dist/weights/choose-dtype.js';
import { parseManifest } from '../dist/wire/parse-manifest.js';

const sha256 = 'a'.repeat(64);
const file = (url) => ({ url, bytes: 3, sha256 });
const manifest = (change = {}) => ({
  format_version: 1,
  name: 'tiny',
  fingerprint: 'f'.repeat(64),
  dim: 768,
  similarity: 'dot',
  family: 'bert',
  max_question_tokens: 64,
  encoder: { config: file('config.json'), tokenizer: file('/v1/tokenizer.json') },
  weights: { f16: file('w.f16'), q8: file('w.q8'), q4: file('w.q4'), q2: { future: true } },
  ...change,
});

test('file addresses are resolved against the manifest\'s own', () => {
  const parsed = parseManifest(manifest(), 'https://server.test/models/tiny/web.json');
  assert.equal(parsed.encoder.config.url, 'https://server.test/models/tiny/config.json');
  assert.equal(parsed.encoder.tokenizer.url, 'https://server.test/v1/tokenizer.json');
  assert.deepEqual(Object.keys(parsed.weights), ['f16', 'q8', 'q4']);
});

test('the binary form of the tokenizer is taken where it is named', () => {
  assert.ok(!('vocabulary' in parseManifest(manifest(), 'https://server.test/').encoder));
  const encoder = { ...manifest().encoder, vocabulary: file('vocabulary.bin') };
  const parsed = parseManifest(manifest({ encoder }), 'https://server.test/');
  assert.equal(parsed.encoder.vocabulary.url, 'https://server.test/vocabulary.bin');
});

test('a model of the second format has its prompt', () => {
  const parsed = parseManifest(manifest({ format_version: 2, question_prompt: 'query: ' }), 'https://server.test/');
  assert.equal(parsed.question_prompt, 'query: ');
});

const bad = [
  ['not an object', [], /not a JSON object/],
  ['another format', manifest({ format_version: 3 }), /format_version 3, .* reads 1 and 2/],
  ['a prompt that is no text', manifest({ question_prompt: 3 }), /question_prompt/],
  ['no fingerprint', manifest({ fingerprint: 'abc' }), /fingerprint/],
  ['dim 0', manifest({ dim: 0 }), /dim/],
  ['no weights', manifest({ weights: {} }), /no weights/, /dpr export-web/],
  ['weights left out', manifest({ weights: undefined }), /no weights/, /dpr export-web/],
  ['a file without a sum', manifest({ weights: { q8: { url: 'w', bytes: 3 } } }), /weights\.q8/],
  ['a file of a billion billion bytes', manifest({ weights: { q8: { ...file('w'), bytes: 1e18 } } }), /weights\.q8\.bytes.* 1000000000000000000, expected a whole number from 1 to 2147483648/],
  ['a file of less than nothing', manifest({ weights: { q8: { ...file('w'), bytes: -1 } } }), /weights\.q8\.bytes/],
  ['a file of half a byte', manifest({ weights: { f16: { ...file('w'), bytes: 0.5 } } }), /weights\.f16\.bytes/],
  ['a vocabulary without a sum', manifest({ encoder: { ...manifest().encoder, vocabulary: { url: 'v', bytes: 3 } } }), /encoder\.vocabulary/],
  ['a tokenizer as large as weights', manifest({ encoder: { config: file('c'), tokenizer: { ...file('t'), bytes: 2 ** 27 } } }), /encoder\.tokenizer\.bytes/],
  ['an address that is none', manifest({ weights: { q8: file('https://[') } }), /weights\.q8\.url/],
];
for (const [name, value, message, fix = /./] of bad) {
  test(`${name} is a ManifestError`, () => {
    assert.throws(() => parseManifest(value, 'https://server.test/'), (error) => error.name === 'ManifestError' && message.test(error.message) && fix.test(error.fix));
  });
}

const dtypes = [
  ['auto', 'cpu', 'q8'],
  ['auto', 'auto', 'q8'],
  ['auto', 'webgpu', 'f16'],
  ['q8', 'webgpu', 'q8'],
];
for (const [choice, device, expected] of dtypes) {
  test(`dtype ${choice} on ${device} is ${expected}`, () => {
    assert.equal(chooseDtype(choice, device, parseManifest(manifest(), 'https://server.test/')), expected);
  });
}

test('weights that the model does not offer are an error that lists the others', () => {
  assert.throws(() => chooseDtype('f32', 'cpu', parseManifest(manifest(), 'https://server.test/')), /no f32 weights, it offers f16, q8/);
});
