import { ServerError } from '../errors/server-error.js';
import type { Hit } from '../types/search-result.js';

/** What a search is answered with. */
export interface Answer {
  hits: Hit[];
  tookMs: number;
}

/**
 * Checks the shape of a server's answer to a search.
 *
 * @throws {@link ServerError} `unexpected_answer`, which names the field that is not as it should be
 */
export function parseAnswer(value: unknown, status: number): Answer {
  const wrong = (what: string) =>
    new ServerError(
      'unexpected_answer',
      status,
      `the answer of the search server is not one of this release: ${what}`,
      'Check that the address is that of a `dpr serve` and that dpr-web and the server are of the same release.',
    );
  if (!isRecord(value)) throw wrong('it is not a JSON object');
  const { hits, took_ms: tookMs } = value;
  if (!Array.isArray(hits)) throw wrong('`hits` is not a list');
  if (!isNumber(tookMs)) throw wrong('`took_ms` is not a number');
  for (const [rank, hit] of hits.entries()) {
    if (!isRecord(hit)) throw wrong(`\`hits[${rank}]\` is not an object`);
    if (!isNumber(hit['score'])) throw wrong(`\`hits[${rank}].score\` is not a number`);
    const text = ['id', 'title', 'text'].find((field) => typeof hit[field] !== 'string');
    if (text !== undefined) throw wrong(`\`hits[${rank}].${text}\` is not a string`);
    const field = notFlat(hit['metadata'] ?? {});
    if (field !== undefined) throw wrong(`\`hits[${rank}].metadata${field}\` is not as metadata is`);
  }
  return { hits: hits as Hit[], tookMs };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The first field of metadata that is not a string, a number or a boolean: `.name`, or `''` for metadata that is no object. */
function notFlat(metadata: unknown): string | undefined {
  if (!isRecord(metadata)) return '';
  const flat = (value: unknown) => typeof value === 'string' || typeof value === 'boolean' || isNumber(value);
  const name = Object.keys(metadata).find((name) => !flat(metadata[name]));
  return name === undefined ? undefined : `.${name}`;
}

function isNumber(value: unknown): value is number {
  return Number.isFinite(value);
}
