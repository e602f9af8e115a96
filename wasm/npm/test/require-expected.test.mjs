import assert from 'node:assert/strict';
import test from 'node:test';
import { ModelMismatchError, QuestionEncoder, SearchClient } from '../dist/index.js';
import { FakeWorker, tinyModel } from './fake-worker.mjs';
import { fakeFetch } from './helpers.mjs';

const OTHER = '0'.repeat(64);

/** The tiny model on a server; `connect` with these expectations, and the addresses that were asked for. */
function server(t, options) {
  const { manifest, restore } = tinyModel(options);
  const files = globalThis.fetch;
  const { calls, restore: restoreServer } = fakeFetch((url, init) => {
    if (url.endsWith('/v1/model')) return Response.json(manifest);
    return files(`https://server.test/${url.split('/').pop()}`, init);
  });
  t.after(() => {
    restoreServer();
    restore();
  });
  const connect = (expect, options = {}) =>
    SearchClient.connect('https://server.test/', { device: 'cpu', createWorker: () => new FakeWorker({}), expect, ...options });
  return { manifest, connect, asked: () => calls.map(({ url }) => url.split('/').pop()) };
}

test('the expected model is loaded, whatever the case of the digits', async (t) => {
  const { manifest, connect } = server(t);
  const { config, tokenizer } = manifest.encoder;
  const sha256 = { config: config.sha256, tokenizer: tokenizer.sha256.toUpperCase(), q8: manifest.weights.q8.sha256 };
  const client = await connect({ fingerprint: manifest.fingerprint, sha256 });
  assert.equal(client.dtype, 'q8');
  client.dispose();
});

for (const what of ['fingerprint', 'config', 'tokenizer', 'q8', 'f16']) {
  test(`another ${what} is refused before anything is downloaded`, async (t) => {
    const { connect, asked } = server(t);
    const expect = what === 'fingerprint' ? { fingerprint: OTHER } : { sha256: { [what]: OTHER } };
    await assert.rejects(
      connect(expect),
      (error) => {
        assert.ok(error instanceof ModelMismatchError);
        const { message, fix, expected, got } = error;
        assert.deepEqual([error.what, expected], [what, OTHER]);
        assert.match(got, /^[0-9a-f]{64}$/);
        assert.equal(message, `the model is not the expected one: its ${what} is ${got}, expected ${OTHER}`);
        assert.match(fix, /^If the model .* `expect`/);
        return true;
      },
    );
    assert.deepEqual(asked(), ['model']);
  });
}

/** The forms of the tokenizer that were downloaded. */
const forms = (asked) => asked().filter((name) => /^(tokenizer|vocabulary)\./.test(name));

test('the tokenizer is downloaded in its binary form, unless only the other form is vouched for', async (t) => {
  for (const [expected, form] of [
    [[], 'vocabulary.bin'],
    [['tokenizer'], 'tokenizer.json'],
    [['vocabulary'], 'vocabulary.bin'],
    [['tokenizer', 'vocabulary'], 'vocabulary.bin'],
  ]) {
    const { manifest, connect, asked } = server(t, { hasVocabulary: true });
    const client = await connect({ sha256: Object.fromEntries(expected.map((name) => [name, manifest.encoder[name].sha256])) });
    client.dispose();
    assert.deepEqual(forms(asked), [form], expected.join());
  }
});

test('a binary form that is not there or another one is refused, unless the other form is vouched for', async (t) => {
  const other = server(t, { hasVocabulary: true });
  await assert.rejects(other.connect({ sha256: { vocabulary: OTHER } }), { name: 'ModelMismatchError', what: 'vocabulary' });
  assert.deepEqual(other.asked(), ['model']);
  const { manifest, connect, asked } = server(t);
  await assert.rejects(connect({ sha256: { vocabulary: OTHER } }), { name: 'ModelMismatchError', what: 'vocabulary', got: undefined });
  const client = await connect({ sha256: { tokenizer: manifest.encoder.tokenizer.sha256, vocabulary: OTHER } });
  client.dispose();
  assert.deepEqual(forms(asked), ['tokenizer.json']);
});

test('weights that nobody vouched for are not loaded, not even when they would be chosen', async (t) => {
  const { manifest, connect, asked } = server(t);
  const client = await connect({ sha256: { f16: manifest.weights.f16.sha256 } });
  assert.equal(client.dtype, 'f16');
  client.dispose();
  assert.ok(!asked().includes('w.q8'));
  await assert.rejects(connect({ sha256: { f16: manifest.weights.f16.sha256 } }, { dtype: 'q8' }), { name: 'ManifestError' });
});

test('a model without the expected format is refused', async (t) => {
  const { connect, asked } = server(t);
  await assert.rejects(connect({ sha256: { f32: OTHER } }), (error) => error.name === 'ModelMismatchError' && error.what === 'f32' && error.got === undefined);
  assert.deepEqual(asked(), ['model']);
});

test('a manifest given as an object is held against the expectation too', async (t) => {
  const { manifest, asked } = server(t);
  const options = { device: 'cpu', baseUrl: 'https://server.test/', createWorker: () => new FakeWorker({}), expect: { fingerprint: OTHER } };
  await assert.rejects(QuestionEncoder.load(manifest, options), { name: 'ModelMismatchError' });
  assert.deepEqual(asked(), []);
});
