import { computed, onScopeDispose, shallowRef, toValue, watch, type ComputedRef, type MaybeRefOrGetter } from 'vue';
import { typeahead, type Typeahead, type TypeaheadOptions, type TypeaheadState } from '../client/typeahead.js';
import type { Hit, SearchResult } from '../types/search-result.js';
import { useSource } from './plugin.js';

/** What {@link useSearch} returns. */
export interface UseSearch {
  /** As in `TypeaheadState`. */
  status: ComputedRef<TypeaheadState['status']>;
  /**
   * The last answer with the present options. It stays while the next one is awaited, and goes with an error, with an
   * empty question and when the options change.
   */
  result: ComputedRef<SearchResult | undefined>;
  /** The passages of `result`, best first; none before there is one. */
  hits: ComputedRef<readonly Hit[]>;
  /** Why there is no answer, with the status `failed`. */
  error: ComputedRef<unknown>;
  /** Whether `result` answers an earlier question than the present one. */
  isStale: ComputedRef<boolean>;
  /** Searches at once what waits, as for the key Enter, and once more what failed. */
  flush(): void;
}

/**
 * The passages nearest to a question, as it is now: waits for a pause of `debounce` milliseconds (100), gives up what
 * is stale, and shows no older answer after a newer one. Ends with the component. Rendered on a server it is idle.
 *
 * @example
 * const question = ref('');
 * const { hits, status, error, flush } = useSearch(question, { k: 5 });
 */
export function useSearch(
  question: MaybeRefOrGetter<string>,
  options: MaybeRefOrGetter<TypeaheadOptions> = {},
): UseSearch {
  const source = useSource();
  const state = shallowRef<TypeaheadState>({ text: '', status: 'idle' });
  let live: Typeahead | undefined;
  const begin = (): Typeahead => {
    const begun = typeahead(source(), toValue(options));
    begun.subscribe((next) => {
      state.value = next;
    });
    return begun;
  };
  if (globalThis.document) {
    // Options are plain data: an object that was made anew may say the same.
    const given = () => [toValue(question), JSON.stringify(toValue(options))] as const;
    watch(
      given,
      ([text, written], before) => {
        if (!live || written !== before?.[1]) {
          live?.dispose();
          live = begin();
        }
        live.input(text);
      },
      { immediate: true },
    );
    onScopeDispose(() => live?.dispose());
  }
  return {
    status: computed(() => state.value.status),
    result: computed(() => state.value.result),
    hits: computed(() => state.value.result?.hits ?? []),
    error: computed(() => state.value.error),
    isStale: computed(() => {
      const { result, status, text } = state.value;
      return result !== undefined && (status !== 'done' || text !== toValue(question).trim());
    }),
    flush: () => live?.flush(),
  };
}
