import { type Device, DprWebError, type Dtype, type RequestDetail, SearchClient, type SearchResult } from 'dpr-web';
import { byId, make } from './dom.js';
import { fixed, megabytes, milliseconds } from './format.js';

const K = 10;
/** Questions encoded to time a device, besides the one that is searched. */
const RUNS = 5;

interface Encoder {
  name: string;
  device: Device;
  dtype: Dtype;
}

/** In the order of the table's columns; the others are held against the first. */
const ENCODERS: readonly Encoder[] = [
  { name: 'the CPU in 8 bits', device: 'cpu', dtype: 'q8' },
  { name: 'the CPU in 4 bits', device: 'cpu', dtype: 'q4' },
  { name: 'WebGPU', device: 'webgpu', dtype: 'q8' },
];

interface Column {
  bytes: number;
  readyMs: number;
  encodeMs: number;
  result: SearchResult;
}

/** Encodes one question by each encoder and puts times and passages side by side. */
export class Compare {
  readonly #start = byId<HTMLButtonElement>('compare-start');
  readonly #state = byId('compare-state');
  readonly #server: URL;
  readonly #onRequest: (request: RequestDetail) => void;

  /** @param question - returns the question to compare with */
  constructor(server: URL, question: () => string, onRequest: (request: RequestDetail) => void) {
    this.#server = server;
    this.#onRequest = onRequest;
    this.#start.addEventListener('click', () => void this.#compare(question()));
  }

  async #compare(question: string): Promise<void> {
    if (question === '') {
      this.#state.textContent = 'Type a question first.';
      byId('question').focus();
      return;
    }
    this.#start.disabled = true;
    try {
      const columns: (Column | string)[] = [];
      // One after the other: they would take each other's time.
      for (const encoder of ENCODERS) {
        this.#state.textContent = `Encoding on ${encoder.name}…`;
        columns.push(await this.#column(encoder, question).catch(said));
      }
      show(columns);
      byId('compare-frame').hidden = false;
      this.#state.textContent = summary(columns);
    } finally {
      this.#start.disabled = false;
    }
  }

  async #column({ device, dtype }: Encoder, question: string): Promise<Column | string> {
    const start = performance.now();
    const client = SearchClient.create(this.#server, { device, dtype });
    client.addEventListener('request', ({ detail }) => this.#onRequest(detail));
    try {
      const ready = await client.ready;
      if (ready.device !== device) return 'not available here';
      const readyMs = performance.now() - start;
      const bytes = ready.model.weights[dtype]?.bytes ?? 0;
      const times: number[] = [];
      for (let run = 0; run < RUNS; run++) {
        const begin = performance.now();
        await client.encodeMany([question]);
        times.push(performance.now() - begin);
      }
      return { bytes, readyMs, encodeMs: median(times), result: await client.search(question, { k: K }) };
    } finally {
      client.dispose();
    }
  }
}

function said(error: unknown): string {
  return error instanceof DprWebError ? `${error.message}. ${error.fix}` : String(error);
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1] ?? 0;
}

function ids(column: Column | string): string[] {
  return typeof column === 'string' ? [] : column.result.hits.map(({ id }) => id);
}

function show(columns: readonly (Column | string)[]): void {
  const row = (label: string, cell: (column: Column) => string) => {
    const cells = columns.map((column) => make('td', '', typeof column === 'string' ? '–' : cell(column)));
    return make('tr', '', Object.assign(make('th', '', label), { scope: 'row' }), ...cells);
  };
  byId('compare-rows').replaceChildren(
    row('Weights', ({ bytes }) => megabytes(bytes)),
    row('Ready after', ({ readyMs }) => milliseconds(readyMs)),
    row('Encode, median of 5', ({ encodeMs }) => milliseconds(encodeMs)),
    row('Request', ({ result }) => milliseconds(result.timings.searchMs)),
    row('Best passage', ({ result }) => result.hits[0]?.title ?? '–'),
    row('Its score', ({ result }) => (result.hits[0] ? fixed(result.hits[0].score, 4) : '–')),
  );
}

function summary(columns: readonly (Column | string)[]): string {
  const [first, ...others] = columns;
  const sentences = columns.flatMap((column, position) => (typeof column === 'string' ? `${capital(position)}: ${column}.` : []));
  if (typeof first === 'string') return sentences.join(' ');
  const best = ids(first!);
  for (const [at, column] of others.entries()) {
    if (typeof column === 'string') continue;
    const found = ids(column);
    const common = best.filter((id) => found.includes(id)).length;
    const order = best.every((id, position) => id === found[position]) ? 'the same' : 'another';
    sentences.push(`${capital(at + 1)}: ${common} of ${best.length} passages in common with ${ENCODERS[0]!.name}, in ${order} order.`);
  }
  return sentences.join(' ');
}

/** The name of an encoder at the beginning of a sentence. */
function capital(position: number): string {
  const { name } = ENCODERS[position]!;
  return name.charAt(0).toUpperCase() + name.slice(1);
}
