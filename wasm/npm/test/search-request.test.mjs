import assert from 'node:assert/strict';
import test from 'node:test';
import { base64ToVector } from '../dist/wire/base64.js';
import { buildSearchRequest } from '../dist/wire/search-request.js';
import { readServerError } from '../dist/wire/server-error.js';

test('the body is the vector, k and the fingerprint, nothing else', () => {
  const vector = Float32Array.of(0.5, -0.25, 3);
  const request = buildSearchRequest('https://server.test/v1/search', vector, 7, 'f'.repeat(64));
  const body = JSON.parse(request.body);
  assert.deepEqual(Object.keys(body), ['vector', 'k', 'model']);
  assert.deepEqual(base64ToVector(body.vector), vector);
  assert.equal(body.k, 7);
  assert.equal(request.bytes, Buffer.byteLength(request.body));
  assert.deepEqual(request.headers, { 'content-type': 'application/json' });
});

test('a filter travels when there is one, and bytes are counted as they travel', () => {
  const filter = { titles: ['Zürich'], ids: ['7'] };
  const request = buildSearchRequest('https://server.test/v1/search', Float32Array.of(1), 7, 'f'.repeat(64), filter);
  assert.deepEqual(JSON.parse(request.body).filter, filter);
  assert.equal(request.bytes, Buffer.byteLength(request.body));
});

test('a condition on the metadata travels as it is', () => {
  const metadata = {
    and: [{ field: 'lang', in: ['en', 'de'] }, { field: 'year', gte: 2000, lt: 2010 }, { not: { field: 'draft', eq: true } }],
  };
  const request = buildSearchRequest('https://server.test/v1/search', Float32Array.of(1), 7, 'f'.repeat(64), { metadata });
  assert.deepEqual(JSON.parse(request.body).filter, { metadata });
});

test('the server\'s own error keeps its code and its fix', async () => {
  const body = { error: { code: 'wrong_model', message: 'the vector is of another model', fix: 'Reload.' } };
  const error = await readServerError(Response.json(body, { status: 409 }));
  assert.equal(error.name, 'ServerError');
  assert.deepEqual([error.code, error.status, error.message, error.fix], ['wrong_model', 409, 'the vector is of another model', 'Reload.']);
});

test('a proxy\'s page of HTML still becomes an error with a fix', async () => {
  const error = await readServerError(new Response('<h1>Bad gateway</h1>', { status: 502, statusText: 'Bad Gateway' }));
  assert.deepEqual([error.code, error.status], ['unexpected_answer', 502]);
  assert.ok(error.fix);
});

test('several vectors travel as a list', () => {
  const request = buildSearchRequest('https://server.test/v1/search', [Float32Array.of(1), Float32Array.of(2)], 7, 'f'.repeat(64));
  const body = JSON.parse(request.body);
  assert.deepEqual(Object.keys(body), ['vectors', 'k', 'model']);
  assert.deepEqual(body.vectors.map(base64ToVector), [Float32Array.of(1), Float32Array.of(2)]);
});
