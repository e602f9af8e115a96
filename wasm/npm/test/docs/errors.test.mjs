import assert from 'node:assert/strict';
import test from 'node:test';
import { read } from './pages.mjs';

const SOURCE = 'wasm/npm/src/errors/dpr-web-error.ts';
const GUIDE = 'docs/guide/errors.md';

/** The codes that have a heading in this part of the guide. */
function headed(part) {
  const [, text] = new RegExp(`^## ${part}$([\\s\\S]*?)(?=^## |$(?![\\s\\S]))`, 'm').exec(read(GUIDE));
  return [...text.matchAll(/^### `(.+)`$/gm)].map(([, code]) => code);
}

const ownCodes = () => {
  const [, union] = /export type DprWebErrorCode =([\s\S]*?);/.exec(read(SOURCE));
  return [...union.matchAll(/'(\w+)'/g)].map(([, code]) => code);
};

test('the guide to errors has a section for each code of the package, and for no other', () => {
  assert.deepEqual(headed('In the page').sort(), ownCodes().sort());
});

test('the guide to errors has a section for each code of the server that the package does not have too', () => {
  const { ErrorCode } = JSON.parse(read('server/openapi.json')).components.schemas;
  const shared = new Set(ownCodes());
  assert.deepEqual(headed('From the server').sort(), ErrorCode.enum.filter((code) => !shared.has(code)).sort());
});

