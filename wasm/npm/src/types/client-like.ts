import type { QuestionEncoder } from '../encoder/question-encoder.js';
import type { SearchClient } from '../client/search-client.js';

/** The interface of a {@link SearchClient}, which the fake of `dpr-web/testing` has too. */
export type SearchClientLike = Pick<SearchClient, keyof SearchClient>;

/** The interface of a {@link QuestionEncoder}, which the fake of `dpr-web/testing` has too. */
export type QuestionEncoderLike = Pick<QuestionEncoder, keyof QuestionEncoder>;
