/**
 * The AI SDK (`ai` from 7 on): {@link dprEmbedding} is an embedding model for questions.
 *
 * @packageDocumentation
 */
import type { EmbeddingModelV4 } from '@ai-sdk/provider';
import type { QuestionEncoderLike } from '../types/client-like.js';

/**
 * An embedding model for questions, of an encoder that is here: in a browser, or in Node with `dpr-web/node`. Texts do
 * not leave the machine. It has the question encoder alone: vectors of passages are made by `dpr encode`, or by
 * `dpr serve` for those that are added.
 *
 * @example
 * import { embedMany } from 'ai';
 * import { dprEmbedding } from 'dpr-web/ai';
 * import { loadEncoder } from 'dpr-web/node';
 * const model = dprEmbedding(await loadEncoder('https://search.example.org/v1/model'));
 * const { embeddings } = await embedMany({ model, values: ['who won super bowl 50', 'who played in it'] });
 */
export function dprEmbedding(encoder: Pick<QuestionEncoderLike, 'encodeMany' | 'dim' | 'model'>): EmbeddingModelV4 {
  return {
    specificationVersion: 'v4',
    provider: 'dpr-web',
    modelId: encoder.model.name,
    maxEmbeddingsPerCall: Number.POSITIVE_INFINITY,
    supportsParallelCalls: true,
    async doEmbed({ values, dimensions, abortSignal }) {
      const vectors = await encoder.encodeMany(values, { signal: abortSignal });
      const details = `the model's vectors have ${encoder.dim} numbers`;
      const isOther = dimensions !== undefined && dimensions !== encoder.dim;
      return {
        embeddings: vectors.map((vector) => Array.from(vector)),
        warnings: isOther ? [{ type: 'unsupported', feature: 'dimensions', details }] : [],
      };
    },
  };
}
