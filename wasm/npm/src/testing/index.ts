/**
 * Fakes for the tests of pages: {@link FakeClient} in the place of `SearchClient`, {@link FakeEncoder} in that of
 * `QuestionEncoder`. They need no browser, worker or network.
 *
 * @packageDocumentation
 */
export type { FakeHit, FakeScript, ForQuestion } from './fake-client.js';
export { FakeClient } from './fake-client.js';
export { FakeEncoder } from './fake-encoder.js';
