/**
 * LlamaIndex (`@llamaindex/core` 0.6): {@link DprRetriever}.
 *
 * @packageDocumentation
 */
import type { QueryBundle } from '@llamaindex/core/query-engine';
import { BaseRetriever } from '@llamaindex/core/retriever';
import { TextNode, type NodeWithScore } from '@llamaindex/core/schema';
import { extractText } from '@llamaindex/core/utils';
import type { SearchClientLike } from '../types/client-like.js';
import type { SearchOptions } from '../types/options.js';

/** What a {@link DprRetriever} is made of: a client and options of its searches. */
export interface DprRetrieverOptions extends Omit<SearchOptions, 'signal'> {
  client: Pick<SearchClientLike, 'search'>;
}

/**
 * A retriever whose questions are encoded here, in a browser or in Node (`dpr-web/node`), and whose server gets their
 * vectors. The words go to the handlers of LlamaIndex' events, should there be any.
 *
 * @example
 * import { DprRetriever } from 'dpr-web/llamaindex';
 * import { connect } from 'dpr-web/node';
 * const retriever = new DprRetriever({ client: await connect('https://search.example.org/'), k: 5 });
 * const nodes = await retriever.retrieve('who won super bowl 50');
 * for (const { node, score } of nodes) console.log(score, node.metadata.title);
 */
export class DprRetriever extends BaseRetriever {
  readonly client: Pick<SearchClientLike, 'search'>;
  readonly search: Omit<SearchOptions, 'signal'>;

  constructor({ client, ...search }: DprRetrieverOptions) {
    super();
    this.client = client;
    this.search = search;
  }

  override async _retrieve({ query }: QueryBundle): Promise<NodeWithScore[]> {
    const { hits } = await this.client.search(extractText(query), this.search);
    return hits.map(({ id, text, title, score, metadata }) => ({
      node: new TextNode({ id_: id, text, metadata: { ...metadata, title } }),
      score,
    }));
  }
}
