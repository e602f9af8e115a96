import { useCallback, useEffect, useRef, useState } from 'react';
import { typeahead, type Typeahead, type TypeaheadOptions, type TypeaheadState } from '../client/typeahead.js';
import type { Hit } from '../types/search-result.js';
import { useSearchClient } from './provider.js';

/** What {@link useSearch} returns: a `TypeaheadState` and more. */
export interface SearchState extends TypeaheadState {
  /** The passages of `result`, best first; none before there is one. */
  hits: readonly Hit[];
  /** Whether `result` answers an earlier question than the present one. */
  isStale: boolean;
  /** Searches at once what waits, as for the key Enter, and once more what failed. */
  flush(): void;
}

const IDLE: TypeaheadState = { text: '', status: 'idle' };
const NONE: readonly Hit[] = [];

/**
 * The passages nearest to the question, as it is now: waits for a pause of `debounce` milliseconds (100), gives up what
 * is stale, and shows no older answer after a newer one. Gone with the component. An error is in the state
 * (`status: 'failed'`), not thrown. Other options begin anew, without the last answer. Rendered on a server it is idle.
 *
 * @example
 * function Search() {
 *   const [question, setQuestion] = useState('');
 *   const { hits, status, error, flush } = useSearch(question, { k: 5, debounce: 200 });
 *   return (
 *     <form onSubmit={(event) => { event.preventDefault(); flush(); }}>
 *       <input value={question} onChange={(event) => setQuestion(event.target.value)} />
 *       {status === 'failed' && <p role="alert">{String(error)}</p>}
 *       <ul>{hits.map((hit) => <li key={hit.id}>{hit.text}</li>)}</ul>
 *     </form>
 *   );
 * }
 */
export function useSearch(question: string, options: TypeaheadOptions = {}): SearchState {
  const client = useSearchClient();
  const live = useRef<Typeahead | undefined>(undefined);
  const [state, setState] = useState(IDLE);
  // Options are plain data: an object written in the component is another one each time it renders.
  const written = JSON.stringify(options);
  // biome-ignore lint/correctness/useExhaustiveDependencies: options that are written alike are the same
  useEffect(() => {
    const own = typeahead(client, options);
    live.current = own;
    own.subscribe(setState);
    return () => own.dispose();
  }, [client, written]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another client, or other options, search it again
  useEffect(() => live.current?.input(question), [question, client, written]);
  const flush = useCallback(() => live.current?.flush(), []);
  const isStale = state.result !== undefined && (state.status !== 'done' || state.text !== question.trim());
  return { ...state, hits: state.result?.hits ?? NONE, isStale, flush };
}
