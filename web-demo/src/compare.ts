import { type Device, DprWebError, type DtypeChoice, type RequestDetail, SearchClient, type SearchResult } from 'dpr-web';
import { byId, make } from './dom.js';
import { fixed, megabytes, milliseconds } from './format.js';

const K = 10;
/** Questions encoded to time a device, besides the one that is searched. */
const RUNS = 5;

interface Encoder {
  name: string;
  /** The head of its column. */
  title: string;
  device: Device;
  dtype: DtypeChoice;
  encoder?: 'small';
}

/** In the order of the table's columns; the others are held against the first. */
const ENCODERS: readonly Encoder[] = [
  { name: 'the CPU in 8 bits', title: 'CPU, 8 bits', device: 'cpu', dtype: 'q8' },
  { name: 'the CPU in 4 bits', title: 'CPU, 4 bits', device: 'cpu', dtype: 'q4' },
  { name: 'the small encoder', title: 'CPU, small encoder', device: 'cpu', dtype: 'auto', encoder: 'small' },
  { name: 'WebGPU', title: 'WebGPU', device: 'webgpu', dtype: 'q8' },
];

interface Column {
  /** Whether the server has a small encoder. */
  hasSmall: boolean;
  bytes: number;
  readyMs: number;
  encodeMs: number;
  result: SearchResult;
}

type Compared = [encoder: Encoder, column: Column | string];

/** Encodes one question by each encoder and puts times and passages side by side. */
export class Compare {
  readonly #start = byId<HTMLButtonElement>('compare-start');
  readonly #state = byId('compare-state');
  readonly #server: URL;
  readonly #onRequest: (request: RequestDetail) => void;
  #running: AbortController | undefined;

  /** @param question - returns the question to compare with */
  constructor(server: URL, question: () => string, onRequest: (request: RequestDetail) => void) {
    this.#server = server;
    this.#onRequest = onRequest;
    this.#start.addEventListener('click', () => void this.#compare(question()));
  }

  /** Gives up the comparison that is under way: it sends nothing more. */
  stop(): void {
    this.#running?.abort();
  }

  async #compare(question: string): Promise<void> {
    if (question === '') {
      this.#state.textContent = 'Type a question first.';
      byId('question').focus();
      return;
    }
    this.#start.disabled = true;
    const { signal } = (this.#running = new AbortController());
    try {
      const columns: Compared[] = [];
      let hasSmall = false;
      // One after the other: they would take each other's time.
      for (const encoder of ENCODERS) {
        if (encoder.encoder && !hasSmall) continue;
        this.#state.textContent = `Encoding on ${encoder.name}…`;
        const column = await this.#column(encoder, question, signal).catch(said);
        if (signal.aborted) return;
        columns.push([encoder, column]);
        hasSmall ||= typeof column !== 'string' && column.hasSmall;
      }
      show(columns);
      byId('compare-frame').hidden = false;
      this.#state.textContent = summary(columns);
    } finally {
      if (signal.aborted) this.#state.textContent = 'Given up.';
      this.#start.disabled = false;
    }
  }

  async #column({ device, dtype, encoder }: Encoder, question: string, signal: AbortSignal): Promise<Column | string> {
    const start = performance.now();
    const client = SearchClient.create(this.#server, { device, dtype, encoder, signal });
    client.addEventListener('request', ({ detail }) => this.#onRequest(detail));
    try {
      const ready = await client.ready;
      if (ready.device !== device) return 'not available here.';
      const readyMs = performance.now() - start;
      const bytes = ready.model.weights[ready.dtype]?.bytes ?? 0;
      const times: number[] = [];
      for (let run = 0; run < RUNS; run++) {
        const begin = performance.now();
        await client.encodeMany([question], { signal });
        times.push(performance.now() - begin);
      }
      return { hasSmall: ready.model.small !== undefined, bytes, readyMs, encodeMs: median(times), result: await client.search(question, { k: K, signal }) };
    } finally {
      client.dispose();
    }
  }
}

function said(error: unknown): string {
  return error instanceof DprWebError ? `${error.message}. ${error.fix}` : `${String(error)}.`;
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1] ?? 0;
}

function ids(column: Column | string): string[] {
  return typeof column === 'string' ? [] : column.result.hits.map(({ id }) => id);
}

function show(columns: readonly Compared[]): void {
  const titles = columns.map(([{ title }]) => Object.assign(make('th', '', title), { scope: 'col' }));
  byId('compare-names').replaceChildren(make('td', ''), ...titles);
  const row = (label: string, cell: (column: Column) => string) => {
    const cells = columns.map(([, column]) => make('td', '', typeof column === 'string' ? '–' : cell(column)));
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

function summary(columns: readonly Compared[]): string {
  const [first, ...others] = columns;
  const sentences = columns.flatMap(([encoder, column]) => (typeof column === 'string' ? `${capital(encoder)}: ${column}` : []));
  if (!first || typeof first[1] === 'string') return sentences.join(' ');
  const best = ids(first[1]);
  for (const [encoder, column] of others) {
    if (typeof column === 'string') continue;
    const found = ids(column);
    const common = best.filter((id) => found.includes(id)).length;
    const order = best.every((id, position) => id === found[position]) ? 'the same' : 'another';
    sentences.push(`${capital(encoder)}: ${common} of ${best.length} passages in common with ${first[0].name}, in ${order} order.`);
  }
  return sentences.join(' ');
}

/** The name of an encoder at the beginning of a sentence. */
function capital({ name }: Encoder): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
