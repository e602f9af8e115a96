import { type Device, DprWebError, type RequestDetail, SearchClient, type SearchResult } from 'dpr-web';
import { byId, make } from './dom.js';
import { fixed, milliseconds } from './format.js';

const K = 10;
/** Questions encoded to time a device, besides the one that is searched. */
const RUNS = 5;
const DEVICES: readonly Device[] = ['cpu', 'webgpu'];

interface Column {
  device: Device;
  readyMs: number;
  encodeMs: number;
  result: SearchResult;
}

/** Encodes one question on both devices and puts times and passages side by side. */
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
      for (const device of DEVICES) {
        this.#state.textContent = `Encoding on ${name(device)}…`;
        columns.push(await this.#column(device, question).catch(said));
      }
      show(columns);
      byId('compare-frame').hidden = false;
      this.#state.textContent = summary(columns);
    } finally {
      this.#start.disabled = false;
    }
  }

  async #column(device: Device, question: string): Promise<Column | string> {
    const start = performance.now();
    const client = SearchClient.create(this.#server, { device, dtype: 'q8' });
    client.addEventListener('request', ({ detail }) => this.#onRequest(detail));
    try {
      const ready = await client.ready;
      if (ready.device !== device) return 'not available here';
      const readyMs = performance.now() - start;
      const times: number[] = [];
      for (let run = 0; run < RUNS; run++) {
        const begin = performance.now();
        await client.encodeMany([question]);
        times.push(performance.now() - begin);
      }
      return { device, readyMs, encodeMs: median(times), result: await client.search(question, { k: K }) };
    } finally {
      client.dispose();
    }
  }
}

const name = (device: Device) => (device === 'cpu' ? 'the CPU' : 'WebGPU');

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
    row('Ready after', ({ readyMs }) => milliseconds(readyMs)),
    row('Encode, median of 5', ({ encodeMs }) => milliseconds(encodeMs)),
    row('Request', ({ result }) => milliseconds(result.timings.searchMs)),
    row('Best passage', ({ result }) => result.hits[0]?.title ?? '–'),
    row('Its score', ({ result }) => (result.hits[0] ? fixed(result.hits[0].score, 4) : '–')),
  );
}

function summary(columns: readonly (Column | string)[]): string {
  const missing = columns.flatMap((column, position) =>
    typeof column === 'string' ? `${name(DEVICES[position]!)}: ${column}.` : [],
  );
  if (missing.length > 0) return missing.join(' ');
  const [first, second] = columns.map(ids);
  const common = first!.filter((id) => second!.includes(id)).length;
  const isSame = first!.every((id, position) => id === second![position]);
  return `${common} of ${first!.length} passages in common, ${isSame ? 'in the same order' : 'in another order'}.`;
}
