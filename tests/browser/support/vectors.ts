import { existsSync, readFileSync } from 'node:fs';
import { repository } from './paths.ts';

/** Little-endian 32-bit floats out of base64. */
export function decodeVector(text: string): Float32Array {
  const bytes = Buffer.from(text, 'base64');
  return Float32Array.from({ length: bytes.length / 4 }, (_, position) => bytes.readFloatLE(position * 4));
}

/** Cosine of two vectors of one length, in 64-bit floats. */
export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) throw new Error(`${a.length} and ${b.length} numbers`);
  let [product, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    product += a[i]! * b[i]!;
    aa += a[i]! ** 2;
    bb += b[i]! ** 2;
  }
  return product / Math.sqrt(aa * bb);
}

interface Golden {
  texts: string[];
  vectors: Float32Array[];
}

/**
 * 64 questions and 63 passages (as `title [SEP] text`, which becomes the token ids of a passage) with the vectors that
 * Python's transformers gives them, brought to the served model's dimension by the projection in its own weights
 * file: the fixture is of the model before `--project`.
 */
export function golden(): Golden {
  const { questions, passages, question_vectors, passage_vectors } = JSON.parse(
    readFileSync(repository('tests/fixtures/minilm/golden.json'), 'utf8'),
  ) as {
    questions: string[];
    passages: { title: string; text: string }[];
    question_vectors: string[];
    passage_vectors: string[];
  };
  const project = projection(repository('data/model/question_encoder/model.safetensors', 'DPR_WEIGHTS'));
  const texts = [...questions, ...passages.map(({ title, text }) => (title ? `${title} [SEP] ${text}` : text))];
  const vectors = [...question_vectors, ...passage_vectors].map((text) => project(decodeVector(text)));
  // In a question, U+2019 is read as an ASCII apostrophe, which Python's tokenizer does not do.
  const alike = texts.map((text) => !text.includes('\u2019'));
  return { texts: texts.filter((_, at) => alike[at]), vectors: vectors.filter((_, at) => alike[at]) };
}

/** `encode_proj` of a safetensors file: `[out, in]` times `[in]`; the identity when there is none. */
function projection(file: string): (vector: Float32Array) => Float32Array {
  const bytes = readFileSync(file);
  const headerLength = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString('utf8', 8, 8 + headerLength)) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  const name = Object.keys(header).find((key) => key.endsWith('encode_proj.weight'));
  if (!name) return (vector) => vector;
  const { dtype, shape, data_offsets } = header[name]!;
  if (dtype !== 'F32') throw new Error(`${name} is ${dtype}`);
  const [rows, columns] = shape as [number, number];
  const start = 8 + headerLength + data_offsets[0];
  const weight = Float32Array.from({ length: rows * columns }, (_, i) => bytes.readFloatLE(start + i * 4));
  return (vector) =>
    Float32Array.from({ length: rows }, (_, row) => {
      let sum = 0;
      for (let column = 0; column < columns; column++) sum += weight[row * columns + column]! * vector[column]!;
      return sum;
    });
}

/** A small random model's files in base64, as the bare module's `QuestionEncoder.load` takes them, with its golden vectors. */
export function smallModel(name: string): Golden & { files: string[] } {
  const file = (part: string) => readFileSync(repository(`tests/fixtures/${name}/${part}`));
  // A pair of encoders has one file of vectors above both.
  const [own, above] = [name, name.split('/')[0]].map((at) => repository(`tests/fixtures/${at}/golden.json`));
  const golden = JSON.parse(readFileSync(existsSync(own!) ? own! : above!, 'utf8')) as {
    questions: string[];
    question_vectors: string[];
    pooling: string;
    normalize: boolean;
    max_tokens: number;
  };
  const { pooling, normalize, max_tokens } = golden;
  const config = { ...JSON.parse(file('config.json').toString('utf8')), dpr: { pooling, normalize, max_tokens } };
  const files = [Buffer.from(JSON.stringify(config)), file('tokenizer.json'), file('model.safetensors')];
  return {
    texts: golden.questions,
    vectors: golden.question_vectors.map(decodeVector),
    files: files.map((bytes) => bytes.toString('base64')),
  };
}
