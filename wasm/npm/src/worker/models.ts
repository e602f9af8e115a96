import type { ModelFiles } from '../weights/model-files.js';
import type { StreamedFiles } from '../weights/stream-model.js';
import type { Reply, Work } from './protocol.js';
import { streamEncoder } from './stream-encoder.js';
import { typedQuestion } from './typed-question.js';
import type { WasmCrossEncoder, WasmModule, WasmQuestionEncoder, WasmReader } from './wasm-module.js';

/** A model of one of the three kinds. */
export type Model =
  | { kind: 'encoder'; it: WasmQuestionEncoder }
  | { kind: 'reader'; it: WasmReader }
  | { kind: 'reranker'; it: WasmCrossEncoder };

/** What makes a model. */
export type Load = (Omit<Extract<Work, { type: 'load' }>, 'files'> & { files: ModelFiles | StreamedFiles }) | Extract<Work, { type: 'load_pair' }>;

/** Typical length, about 16 tokens; encoded to warm up and to measure. Never sent anywhere. */
export const SAMPLE = 'which team won the championship game in the year two thousand and sixteen';
/** A short question, and a passage of about 150 tokens for it. */
const PAIR_QUESTION = 'who';
const PAIR_TEXT = `${SAMPLE} `.repeat(10);

/**
 * Makes a model.
 * @param alive - called while its weights arrive
 */
export async function make(module: WasmModule, command: Load, alive: () => void = () => undefined): Promise<Model> {
  if (command.type === 'load') {
    const { files } = command;
    if (isStreamed(files)) return { kind: 'encoder', it: await streamEncoder(module, files, alive) };
    const { config, tokenizer, weights } = files;
    return { kind: 'encoder', it: await module.QuestionEncoder.load(config, tokenizer, weights) };
  }
  const { kind, maxTokens } = command;
  const { config, tokenizer, weights, shared } = command.files;
  return kind === 'reader'
    ? { kind, it: await module.Reader.load(config, tokenizer, weights, maxTokens, shared) }
    : { kind, it: await module.CrossEncoder.load(config, tokenizer, weights, maxTokens, shared) };
}

/** Whether the weights are on their way. */
export function isStreamed(files: ModelFiles | StreamedFiles): files is StreamedFiles {
  return !(files.weights instanceof Uint8Array);
}

/** What a model says of itself, once it is there. */
export function shape(id: number, { kind, it }: Model): Reply {
  const { maxTokens, device } = it;
  return { type: 'loaded', id, dim: kind === 'encoder' ? it.dim : 0, maxTokens, device };
}

/** The model, which must be one that encodes questions. */
export function encoderOf(model: Model | undefined): WasmQuestionEncoder {
  if (model?.kind !== 'encoder') throw new Error('a question came before `load`');
  return model.it;
}

/** Has a model do its work once. */
export async function warmUp({ kind, it }: Model): Promise<void> {
  if (kind === 'encoder') await it.encode(SAMPLE);
  else if (kind === 'reader') await it.read(PAIR_QUESTION, [''], [PAIR_TEXT], 1, 1);
  else await it.score(PAIR_QUESTION, [''], [PAIR_TEXT]);
}

/** What a model of pairs makes of passages; a copy, as the module may hand out a view of its own memory. */
export async function score(
  model: Model | undefined,
  command: Extract<Work, { type: 'read' | 'score' }>,
): Promise<Float64Array<ArrayBuffer>> {
  const { titles, texts } = command;
  const question = typedQuestion(command.question);
  if (model?.kind === 'reader') {
    const [spans, tokens] = command.type === 'read' ? [1, command.maxAnswerTokens] : [0, 1];
    return Float64Array.from(await model.it.read(question, titles, texts, spans, tokens));
  }
  if (model?.kind === 'reranker') {
    return Float64Array.from(await model.it.score(question, titles, texts));
  }
  throw new Error('passages came before `load_pair`');
}
