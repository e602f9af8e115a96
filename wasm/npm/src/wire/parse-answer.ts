import { ServerError } from '../errors/server-error.js';
import type { Hit } from '../types/search-result.js';

/** What a search is answered with. */
export interface Answer {
  /** One list for each vector of the request, in their order. */
  lists: Hit[][];
  tookMs: number;
}

/**
 * Checks the shape of a server's answer to a search for so many vectors, or for one outside a list.
 *
 * @throws {@link ServerError} `unexpected_answer`, which names the field that is not as it should be
 */
export function parseAnswer(value: unknown, status: number, vectors?: number): Answer {
  const wrong = (what: string) =>
    new ServerError(
      'unexpected_answer',
      status,
      `the answer of the search server is not one of this release: ${what}`,
      'Check that the address is that of a `dpr serve` and that dpr-web and the server are of the same release.',
    );
  const hitsOf = (list: unknown, where: string): Hit[] => {
    const hits = isRecord(list) ? list['hits'] : undefined;
    if (!Array.isArray(hits)) throw wrong(`\`${where}hits\` is not a list`);
    for (const [rank, hit] of hits.entries()) {
      const at = `${where}hits[${rank}]`;
      if (!isRecord(hit)) throw wrong(`\`${at}\` is not an object`);
      if (!isNumber(hit['score'])) throw wrong(`\`${at}.score\` is not a number`);
      const text = ['id', 'title', 'text'].find((field) => typeof hit[field] !== 'string');
      if (text !== undefined) throw wrong(`\`${at}.${text}\` is not a string`);
      const field = notFlat(hit['metadata'] ?? {});
      if (field !== undefined) throw wrong(`\`${at}.metadata${field}\` is not as metadata is`);
    }
    return hits as Hit[];
  };
  if (!isRecord(value)) throw wrong('it is not a JSON object');
  const { results, took_ms: tookMs } = value;
  if (vectors !== undefined && (!Array.isArray(results) || results.length !== vectors)) {
    throw wrong(`\`results\` is not a list of ${vectors}`);
  }
  const several = () => (results as unknown[]).map((list, at) => hitsOf(list, `results[${at}].`));
  const lists = vectors === undefined ? [hitsOf(value, '')] : several();
  if (!isNumber(tookMs)) throw wrong('`took_ms` is not a number');
  return { lists, tookMs };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * The first field of metadata that is not a string, a number or a boolean: `.name`, or `''` for metadata that is no
 * object.
 */
function notFlat(metadata: unknown): string | undefined {
  if (!isRecord(metadata)) return '';
  const flat = (value: unknown) => typeof value === 'string' || typeof value === 'boolean' || isNumber(value);
  const name = Object.keys(metadata).find((name) => !flat(metadata[name]));
  return name === undefined ? undefined : `.${name}`;
}

function isNumber(value: unknown): value is number {
  return Number.isFinite(value);
}
