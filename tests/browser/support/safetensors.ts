/** A tensor of a safetensors file. */
export interface Tensor {
  name: string;
  dtype: string;
  shape: number[];
  bytes: Uint8Array;
}

/** Matrices that stay as they are in 8 bits: small tables, and the layers after the encoder. */
const NOT_QUANTIZED = /position_embeddings|token_type_embeddings|relative_attention_bias|qa_/;

export function readTensors(file: Buffer): Tensor[] {
  const data = 8 + Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, data)) as Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>;
  return Object.entries(header)
    .filter(([name]) => name !== '__metadata__')
    .map(([name, { dtype, shape, data_offsets: [from, to] }]) => ({ name, dtype, shape, bytes: file.subarray(data + from, data + to) }));
}

export function writeTensors(tensors: readonly Tensor[]): Buffer {
  let size = 0;
  const entries = tensors.map(({ name, dtype, shape, bytes }) => [name, { dtype, shape, data_offsets: [size, (size += bytes.length)] }]);
  const header = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, ...tensors.map(({ bytes }) => bytes)]);
}

/** The numbers of a tensor in single or half precision, in memory of their own. */
export function numbers({ dtype, bytes, name }: Tensor): Float32Array {
  const { buffer } = Uint8Array.from(bytes);
  if (dtype === 'F32') return new Float32Array(buffer);
  if (dtype === 'F16') return Float32Array.from(new Uint16Array(buffer), half);
  throw new Error(`${name} is ${dtype}`);
}

/** The number of these 16 bits. */
function half(bits: number): number {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15);
  return bits >> 15 ? -size : size;
}

/** The same file with its matrices in 8 bits and a scale for each row, as pages download it. */
export function inEightBits(file: Buffer): Buffer {
  return writeTensors(
    readTensors(file).flatMap((tensor) => {
      const { name, shape } = tensor;
      if (shape.length !== 2 || NOT_QUANTIZED.test(name)) return [tensor];
      const [rows, columns] = shape as [number, number];
      const values = numbers(tensor);
      const codes = new Int8Array(values.length);
      const scales = new Float32Array(rows);
      for (let row = 0; row < rows; row++) {
        const own = values.subarray(row * columns, (row + 1) * columns);
        const scale = own.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127;
        scales[row] = scale;
        own.forEach((value, column) => (codes[row * columns + column] = scale > 0 ? Math.round(value / scale) : 0));
      }
      return [
        { name, dtype: 'I8', shape, bytes: new Uint8Array(codes.buffer) },
        { name: `${name}.scale`, dtype: 'F32', shape: [rows], bytes: new Uint8Array(scales.buffer) },
      ];
    }),
  );
}
