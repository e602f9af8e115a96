import { DprWebError, modelCache, QuestionEncoder, SearchClient, ServerError, typeahead } from 'dpr-web';
import type { Device, Hit, Progress, SearchResult } from 'dpr-web';
import 'dpr-web/element';
import { LocalSearch } from 'dpr-web/local';
import { keepOffline } from 'dpr-web/service-worker';
import { FakeClient } from 'dpr-web/testing';
import 'dpr-web/worker';
import 'dpr-web/worker/cpu';
import 'dpr-web/worker/webgpu';

const seen: Progress['status'][] = [];
const maybe: AbortSignal | undefined = Math.random() > 2 ? new AbortController().signal : undefined;
const client: SearchClient = await SearchClient.connect(new URL('https://search.example.org/'), {
  device: 'cpu',
  onProgress: (event) => seen.push(event.status),
  signal: maybe,
});
const { hits, timings, request }: SearchResult = await client.search('who', { k: 5, filter: { titles: ['Who'] } });
const titles: string[] = hits.map((hit: Hit) => hit.title);
const device: Device = client.device ?? 'cpu';
console.log(titles, device, timings.encodeMs + (request?.bytes ?? 0));

const encoder = await QuestionEncoder.load('https://search.example.org/v1/model', { dtype: 'q8' });
const vector: Float32Array = await encoder.encode('who');
typeahead(client, { debounce: 100 }).subscribe(({ result }) => console.log(result?.hits.length, vector.length));
await modelCache.clear();
const local = await LocalSearch.open('/dpr/dpr-static.json', { device: 'cpu' });
console.log((await local.search('who')).hits.length, new FakeClient({ hits: ['a text'] }).state);
keepOffline({ server: null, assets: ['/a.js'] });

try {
  await client.search('who');
} catch (error) {
  if (error instanceof ServerError) console.log(error.status);
  if (error instanceof DprWebError) console.log(error.fix.length, error.code);
}

// The types are there, and are not `any`.
// @ts-expect-error: no such device
await SearchClient.connect('/', { device: 'abacus' });
// @ts-expect-error: no such member
client.forget();
