import assert from 'node:assert/strict';
import test from 'node:test';
import { cosineSimilarity, embed, embedMany } from 'ai';
import { dprEmbedding } from 'dpr-web/ai';
import { FakeEncoder } from 'dpr-web/testing';

test('AI SDK: `embed` and `embedMany` give the vectors of the encoder, in the order of the texts', async () => {
  const encoder = new FakeEncoder();
  const model = dprEmbedding(encoder);
  const { embedding, value } = await embed({ model, value: 'who' });
  assert.deepEqual([value, embedding], ['who', [...(await new FakeEncoder().encode('who'))]]);
  const { embeddings } = await embedMany({ model, values: ['a', 'b', 'who'] });
  assert.equal(embeddings.length, 3);
  assert.ok(Math.abs(cosineSimilarity(embeddings[2], embedding) - 1) < 1e-6);
  assert.deepEqual(encoder.texts, ['who', 'a', 'b', 'who']);
  assert.deepEqual([model.provider, model.modelId, model.specificationVersion], ['dpr-web', 'fake', 'v4']);
});

test('AI SDK: a signal stops it, and an error of the encoder is the error', async () => {
  const encoder = new FakeEncoder();
  const model = dprEmbedding(encoder);
  await assert.rejects(embed({ model, value: 'who', abortSignal: AbortSignal.abort(new Error('typed on')), maxRetries: 0 }), /typed on/);
  encoder.dispose();
  await assert.rejects(embed({ model, value: 'who', maxRetries: 0 }), { name: 'DisposedError' });
});

test('AI SDK: another number of dimensions is a warning', async () => {
  const model = dprEmbedding(new FakeEncoder());
  const { warnings } = await model.doEmbed({ values: ['who'], dimensions: 2 });
  assert.deepEqual(warnings.map(({ type, feature, details }) => [type, feature, details]), [['unsupported', 'dimensions', "the model's vectors have 4 numbers"]]);
  assert.deepEqual((await model.doEmbed({ values: ['who'], dimensions: 4 })).warnings, []);
});
