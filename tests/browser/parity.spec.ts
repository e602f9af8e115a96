import { readFileSync } from 'node:fs';
import { expect, test } from './support/fixtures.ts';
import { PACKAGE } from './support/gateway.ts';
import { repository } from './support/paths.ts';
import { cosine, decodeVector, golden, smallModel } from './support/vectors.ts';

const { texts, vectors } = golden();
// From the shortest to the longest: rows of other lengths take other shaders.
const byLength = texts.map((_, i) => i).sort((a, b) => texts[a]!.length - texts[b]!.length);

const CASES = [
  { module: 'cpu', dtype: 'f32', least: 0.9999, rows: Infinity },
  { module: 'cpu', dtype: 'q8', least: 0.995, rows: Infinity },
  { module: 'relaxed', dtype: 'f32', least: 0.9999, rows: Infinity },
  { module: 'relaxed', dtype: 'f16', least: 0.9999, rows: Infinity },
  { module: 'relaxed', dtype: 'q8', least: 0.995, rows: Infinity },
  { module: 'relaxed', dtype: 'q4', least: 0.925, rows: Infinity },
  // A software GPU takes seconds a text; DPR_PARITY_ROWS=128 checks every text of the fixture.
  { module: 'webgpu', dtype: 'f32', least: 0.9999, rows: Number(process.env.DPR_PARITY_ROWS ?? 16) },
] as const;

/** `count` of the fixture's texts, the shortest and the longest among them, and the others evenly between. */
function spread(count: number): number[] {
  const last = texts.length - 1;
  if (count > last) return byLength;
  return Array.from({ length: count }, (_, i) => byLength[Math.round((i * last) / (count - 1))]!);
}

/** The files of the CPU's modules, which have one script. */
const wasmOf = (module: string) => `${PACKAGE}wasm/${module}/dpr_wasm_bg.wasm`;

for (const { module, dtype, least, rows } of CASES) {
  test(`vectors on the ${module} module with ${dtype} weights are those of transformers`, async ({ blank, gateway }) => {
    test.setTimeout(1_800_000);
    const device = module === 'webgpu' ? 'webgpu' : 'cpu';
    // The page would take the relaxed one, where it may choose.
    const wasmUrl = module === 'cpu' ? { cpu: wasmOf(module) } : undefined;
    const chosen = spread(rows);
    const encoded = await blank.evaluate(
      async ([device, dtype, wasmUrl, texts]) => {
        const encoder = await window.dpr.QuestionEncoder.load('/v1/model', { device, dtype, wasmUrl });
        const vectors: string[] = [];
        for (const text of texts) vectors.push(window.dpr.vectorToBase64(await encoder.encode(text)));
        const used = encoder.device;
        encoder.dispose();
        return { vectors, used };
      },
      [device, dtype, wasmUrl, chosen.map((i) => texts[i]!)] as const,
    );
    expect(encoded.used).toBe(device);
    expect(gateway.matching('dpr_wasm_bg.wasm').map(({ path }) => path)).toEqual([wasmOf(module)]);
    const cosines = chosen.map((row, i) => cosine(vectors[row]!, decodeVector(encoded.vectors[i]!)));
    console.log(`${module} ${dtype}: lowest cosine of ${cosines.length} texts ${Math.min(...cosines).toFixed(7)}`);
    expect(Math.min(...cosines)).toBeGreaterThanOrEqual(least);
  });
}

test('a question with the apostrophe of a telephone is the one with an ASCII apostrophe, as on the server', async ({ blank }) => {
  const [vectors, counts] = await blank.evaluate(async () => {
    const encoder = await window.dpr.QuestionEncoder.load('/v1/model', { device: 'cpu' });
    const [vectors, counts] = [[] as string[], [] as number[]];
    for (const text of ["who's the capital's mayor", ' who\u2019s the capital\u2019s mayor\n', 'who s the capital s mayor']) {
      vectors.push(window.dpr.vectorToBase64(await encoder.encode(text)));
      counts.push(await encoder.countTokens(text));
    }
    encoder.dispose();
    return [vectors, counts] as const;
  });
  expect(vectors[1]).toBe(vectors[0]);
  expect(counts[1]).toBe(counts[0]);
  expect(vectors[2]).not.toBe(vectors[0]);
});

// Parts that the starter model lacks: MPNet's bias on the attention scores, CLS pooling, other widths and tokenizers,
// rotary positions, gated layers and local attention.
const SMALL_MODELS = [
  'mpnet-tiny',
  'dpr-tiny/question',
  'families/distilbert',
  'families/xlm-roberta',
  'families/roberta',
  'families/modernbert',
  'families/nomic-bert',
];

for (const name of SMALL_MODELS) {
  for (const module of ['cpu', 'relaxed', 'webgpu']) {
    test(`${name} on the ${module} module gives the vectors of transformers`, async ({ blank }) => {
      test.setTimeout(300_000);
      const { files, texts, vectors } = smallModel(name);
      const got = await blank.evaluate(
        async ([entry, wasm, files, texts]) => {
          const { default: init, QuestionEncoder } = await import(entry);
          await init({ module_or_path: wasm });
          const encoder = await QuestionEncoder.load(
            ...files.map((file) => Uint8Array.from(atob(file), (character) => character.charCodeAt(0))),
          );
          const vectors: number[][] = [];
          for (const text of texts) vectors.push(Array.from((await encoder.encode(text)) as Float32Array));
          encoder.free();
          return vectors;
        },
        [`${PACKAGE}wasm/${module === 'relaxed' ? 'cpu' : module}/dpr_wasm.js`, wasmOf(module), files, texts] as const,
      );
      const cosines = vectors.map((vector, i) => cosine(vector, got[i]!));
      const [config, tokenizer, weights] = files.map((file) => Buffer.byteLength(file, 'base64'));
      console.log(
        `${name} on ${module}: config ${config}, tokenizer ${tokenizer}, weights ${weights} bytes, lowest cosine of ${cosines.length} texts ${Math.min(...cosines).toFixed(7)}`,
      );
      expect(cosines.length).toBe(texts.length);
      expect(Math.min(...cosines)).toBeGreaterThanOrEqual(0.9999);
    });
  }
}

test('8-bit products by relaxed SIMD are those of plain SIMD to the bit, whatever the engine makes of them', async ({ blank }) => {
  const [one, two, engine, plain] = await blank.evaluate(
    async ([script, wasm, other, texts]) => {
      const manifest = await (await fetch('/v1/model')).json();
      const bytes = async ({ url }: { url: string }) => new Uint8Array(await (await fetch(new URL(url, `${location.origin}/v1/model`))).arrayBuffer());
      const files = await Promise.all([manifest.encoder.config, manifest.encoder.tokenizer, manifest.weights.q8].map(bytes));
      // The fragment makes it a second instance of the script, with its own memory.
      const [relaxed, without] = await Promise.all([import(script), import(`${script}#plain`)]);
      await Promise.all([relaxed.default({ module_or_path: wasm }), without.default({ module_or_path: other })]);
      const vectors = async ({ QuestionEncoder }: typeof relaxed) => {
        const encoder = await QuestionEncoder.load(...files);
        const all: number[][] = [];
        for (const text of texts) all.push(Array.from((await encoder.encode(text)) as Float32Array));
        encoder.free();
        return all;
      };
      const choices = [true, false].map((wanted) => relaxed.relaxedProducts(wanted));
      const engine = [...choices, typeof relaxed.relaxedProducts(), without.relaxedProducts(true)];
      relaxed.relaxedProducts(true);
      const one = await vectors(relaxed);
      relaxed.relaxedProducts(false);
      return [one, await vectors(relaxed), engine, await vectors(without)] as const;
    },
    [`${PACKAGE}wasm/cpu/dpr_wasm.js`, wasmOf('relaxed'), wasmOf('cpu'), spread(24).map((i) => texts[i]!)] as const,
  );
  expect(engine).toEqual([true, false, 'boolean', false]);
  expect(one).toEqual(two);
  // Beside the products, what is added and multiplied in one rounding.
  const worst = Math.max(...one.flatMap((vector, i) => vector.map((x, j) => Math.abs(x - plain[i]![j]!))));
  console.log(`largest difference from the module without relaxed SIMD: ${worst}`);
  expect(worst).toBeLessThan(1e-3);
});

test("the example in the module's documentation gives the vector of transformers", async ({ blank }) => {
  const source = readFileSync(repository('wasm/src/lib.rs'), 'utf8');
  const [, lines] = /^\/\/! ```js\n(.*?)^\/\/! ```$/ms.exec(source)!;
  const { files, texts, vectors } = smallModel('dpr-tiny/question');
  const example = lines!
    .replace(/^\/\/! ?/gm, '')
    .replace("'./dpr_wasm.js'", JSON.stringify(`${PACKAGE}wasm/cpu/dpr_wasm.js`))
    .replace("'who won super bowl 50'", JSON.stringify(texts[0]!))
    .replace('import init, {', 'const { default: init,')
    .replace('} from ', '} = await import(')
    .replace(".js\";", '.js");');
  const got = await blank.evaluate(
    async ([example, files]) => {
      // In the order in which `load` takes them.
      const names = Array.from(example.matchAll(/bytes\('([^']+)'\)/g), ([, name]) => name);
      const { fetch } = globalThis;
      globalThis.fetch = async (input, options) => {
        const at = names.indexOf(String(input));
        if (at < 0) return fetch(input, options);
        return new Response(Uint8Array.from(atob(files[at]!), (character) => character.charCodeAt(0)));
      };
      const AsyncFunction = (async () => {}).constructor as new (code: string) => () => Promise<ArrayLike<number>>;
      return Array.from(await new AsyncFunction(`${example}\nreturn vector;`)());
    },
    [example, files] as const,
  );
  expect(cosine(vectors[0]!, got)).toBeGreaterThanOrEqual(0.9999);
});

test('a question on WebGPU is nine dispatches a layer and eight beside them, and another one makes no pipeline', async ({ blank }) => {
  const { files, texts } = smallModel('dpr-tiny/question');
  const { num_hidden_layers: layers } = JSON.parse(Buffer.from(files[0]!, 'base64').toString('utf8')) as { num_hidden_layers: number };
  const counted = await blank.evaluate(
    async ([entry, files, texts]) => {
      const counts = { dispatches: 0, pipelines: 0 };
      type Methods = Record<string, (...values: unknown[]) => unknown>;
      const count = (type: string, method: string, counter: keyof typeof counts) => {
        const { prototype } = (globalThis as unknown as Record<string, { prototype: Methods }>)[type]!;
        const original = prototype[method]!;
        prototype[method] = function (this: unknown, ...values: unknown[]) {
          counts[counter]++;
          return original.apply(this, values);
        };
      };
      count('GPUComputePassEncoder', 'dispatchWorkgroups', 'dispatches');
      count('GPUDevice', 'createComputePipeline', 'pipelines');
      const { default: init, QuestionEncoder } = await import(entry);
      await init();
      const encoder = await QuestionEncoder.load(
        ...files.map((file) => Uint8Array.from(atob(file), (character) => character.charCodeAt(0))),
      );
      await encoder.encode(texts[0]);
      const first = { ...counts };
      await encoder.encode(texts[0]);
      return [first, { dispatches: counts.dispatches - first.dispatches, pipelines: counts.pipelines - first.pipelines }];
    },
    [`${PACKAGE}wasm/webgpu/dpr_wasm.js`, files, texts] as const,
  );
  console.log(`dispatches and pipelines of ${layers} layers: ${JSON.stringify(counted)}`);
  const [first, second] = counted;
  expect(first!.pipelines).toBeLessThanOrEqual(12);
  expect(second!.dispatches).toBeLessThanOrEqual(9 * layers + 8);
  expect(second!.dispatches).toBeGreaterThan(0);
  expect(second!.pipelines).toBe(0);
});
