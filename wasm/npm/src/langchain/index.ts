/**
 * LangChain (`@langchain/core` from 1 on): {@link DprRetriever}.
 *
 * @packageDocumentation
 */
import { Document } from '@langchain/core/documents';
import { BaseRetriever, type BaseRetrieverInput } from '@langchain/core/retrievers';
import type { RunnableConfig } from '@langchain/core/runnables';
import type { SearchClientLike } from '../types/client-like.js';
import type { SearchOptions } from '../types/options.js';
import type { Metadata } from '../types/metadata.js';

/** What a document has besides its text: the passage's own metadata, its title, and how near it is. */
export type DocumentMetadata = Metadata & { title: string; score: number };

/** What a {@link DprRetriever} is made of: a client, options of its searches, and what every retriever takes. */
export interface DprRetrieverInput extends BaseRetrieverInput, Omit<SearchOptions, 'signal'> {
  client: Pick<SearchClientLike, 'search'>;
}

/**
 * A retriever whose questions are encoded here, in a browser or in Node (`dpr-web/node`), and whose server gets their
 * vectors. The signal of a call gives its search up.
 *
 * LangChain hands the words of a question to every callback and tracer: leave out those that send them elsewhere.
 *
 * @example
 * import { DprRetriever } from 'dpr-web/langchain';
 * import { connect } from 'dpr-web/node';
 * const retriever = new DprRetriever({ client: await connect('https://search.example.org/'), k: 5 });
 * const documents = await retriever.invoke('who won super bowl 50');
 * for (const { pageContent, metadata } of documents) console.log(metadata.title, pageContent);
 */
export class DprRetriever extends BaseRetriever<DocumentMetadata> {
  readonly lc_namespace = ['dpr-web', 'retrievers'];
  readonly client: Pick<SearchClientLike, 'search'>;
  readonly search: Omit<SearchOptions, 'signal'>;
  /** Of the present call. */
  protected readonly signal: AbortSignal | undefined = undefined;

  static override lc_name(): string {
    return 'DprRetriever';
  }

  constructor({ client, k, filter, timeout, rerank, privacy, ...fields }: DprRetrieverInput) {
    super(fields);
    this.client = client;
    this.search = { k, filter, timeout, rerank, privacy };
  }

  override invoke(question: string, config?: RunnableConfig): Promise<Document<DocumentMetadata>[]> {
    // LangChain passes no signal on: each call gets an object of its own that has it.
    const call = Object.create(this, { signal: { value: config?.signal } });
    return super.invoke.call(call, question, config) as Promise<Document<DocumentMetadata>[]>;
  }

  override async _getRelevantDocuments(question: string): Promise<Document<DocumentMetadata>[]> {
    const { hits } = await this.client.search(question, { ...this.search, signal: this.signal });
    return hits.map(({ id, text, title, score, metadata }) => {
      return new Document({ id, pageContent: text, metadata: { ...metadata, title, score } });
    });
  }
}
