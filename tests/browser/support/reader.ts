import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Gateway, Interceptor } from './gateway.ts';
import { repository } from './paths.ts';
import { inEightBits, numbers, readTensors, writeTensors, type Tensor } from './safetensors.ts';

/** Where the gateway serves a reader's files. */
const FILES = '/reader-files/';

/** A file of `tests/fixtures/readers`. */
export const readerFixture = (path: string): Buffer => readFileSync(repository(`tests/fixtures/readers/${path}`));

/** A reader as the page downloads it: its configuration, its tokenizer and its weights by their format. */
export interface ReaderFiles {
  config: Buffer;
  tokenizer: Buffer;
  weights: Record<string, Buffer>;
  maxTokens: number;
}

/** The small random reader of the fixtures, in f32 and in 8 bits. */
export function smallReader(name = 'dpr'): ReaderFiles {
  const f32 = readerFixture(`${name}/model.safetensors`);
  return {
    config: readerFixture(`${name}/config.json`),
    tokenizer: readerFixture(`${name}/tokenizer.json`),
    weights: { f32, q8: inEightBits(f32) },
    maxTokens: 60,
  };
}

/**
 * Has the gateway's server offer this reader in `GET /v1/model`. What `spoil` answers itself is not answered here.
 *
 * @returns the address of each file on the gateway
 */
export function offerReader(gateway: Gateway, files: ReaderFiles, spoil: Interceptor = () => false): Record<string, string> {
  const served = new Map<string, Buffer>();
  const file = (name: string, bytes: Buffer) => {
    served.set(FILES + name, bytes);
    return { url: FILES + name, bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
  };
  const weights = Object.entries(files.weights).map(([dtype, bytes]) => [dtype, file(`reader.${dtype}.safetensors`, bytes)]);
  const reader = {
    name: 'random reader',
    fingerprint: createHash('sha256').update(files.config).update(files.weights['q8'] ?? '').digest('hex'),
    max_tokens: files.maxTokens,
    config: file('reader.config.json', files.config),
    tokenizer: file('reader.tokenizer.json', files.tokenizer),
    weights: Object.fromEntries(weights) as Record<string, unknown>,
  };
  gateway.intercept((request, response, count) => {
    if (spoil(request, response, count)) return true;
    const bytes = served.get(request.path);
    if (bytes) response.end(bytes);
    else if (request.path === '/v1/model') {
      void fetch(new URL(request.path, process.env.DPR_URL))
        .then((answer) => answer.json())
        .then((manifest) => {
          response.setHeader('content-type', 'application/json');
          response.end(JSON.stringify({ ...(manifest as object), reader }));
        });
    } else return false;
    return true;
  });
  return Object.fromEntries([...served.keys()].map((path) => [path.slice(FILES.length), path]));
}

/**
 * A directory's worth of a `DPRReader` that has the embeddings of a question encoder (in f32, as `dpr import` writes
 * it), and other numbers everywhere else: for times and sizes, and for answers that mean nothing.
 */
export function readerOf(config: Buffer, weights: Buffer): { config: Buffer; weights: Buffer } {
  const encoder = readTensors(weights).filter(({ name }) => !/encode_proj|dense\.\d/.test(name));
  const own = encoder.map((tensor): Tensor => {
    const name = `span_predictor.encoder.bert_model.${tensor.name.replace(/^question_encoder\.bert_model\./, '')}`;
    if (name.includes('embeddings')) return { ...tensor, name };
    const values = numbers(tensor).map((value, at) => value * (1 + 0.05 * Math.sin(at)));
    return { ...tensor, name, bytes: new Uint8Array(values.buffer) };
  });
  const { hidden_size: hidden, dpr: _, ...rest } = JSON.parse(config.toString('utf8')) as Record<string, unknown>;
  const head = (name: string, outputs: number): Tensor[] => {
    const values = Float32Array.from({ length: outputs * Number(hidden) }, (_, at) => Math.sin(at * at + outputs));
    return [
      { name: `span_predictor.${name}.weight`, dtype: 'F32', shape: [outputs, Number(hidden)], bytes: new Uint8Array(values.buffer) },
      { name: `span_predictor.${name}.bias`, dtype: 'F32', shape: [outputs], bytes: new Uint8Array(outputs * 4) },
    ];
  };
  const edited = { ...rest, hidden_size: hidden, model_type: 'dpr', architectures: ['DPRReader'], projection_dim: 0 };
  return {
    config: Buffer.from(JSON.stringify(edited)),
    weights: writeTensors([...own, ...head('qa_outputs', 2), ...head('qa_classifier', 1)]),
  };
}
