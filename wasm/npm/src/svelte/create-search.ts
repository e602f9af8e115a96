import { readable, type Readable, type Writable } from 'svelte/store';
import { typeahead, type Typeahead, type TypeaheadOptions, type TypeaheadState } from '../client/typeahead.js';
import type { SearchClientLike } from '../types/client-like.js';
import type { Hit } from '../types/search-result.js';

/** The value of a {@link SearchStore}: a `TypeaheadState` and its passages. */
export interface SearchState extends TypeaheadState {
  /** The passages of `result`, best first; none before there is one. */
  hits: readonly Hit[];
}

/** What {@link createSearch} returns: a store, and what goes into it. */
export interface SearchStore extends Readable<SearchState> {
  /** The text to search, for `bind:value={$question}`. */
  question: Writable<string>;
  /** Searches at once what waits, as for the key Enter, and once more what failed. */
  flush(): void;
}

/**
 * A store of the passages nearest to what is typed: waits for a pause of `debounce` milliseconds (100), gives up what
 * is stale, and shows no older answer after a newer one. Nothing is searched while nobody is subscribed, and what is
 * under way when the last one leaves is given up. Rendered on a server it is idle.
 *
 * @example
 * <script>
 *   import { createSearch, getSearchClient } from 'dpr-web/svelte';
 *   const search = createSearch(getSearchClient(), { k: 5 });
 *   const { question } = search;
 * </script>
 * <input bind:value={$question} />
 * {#each $search.hits as hit (hit.id)}<p>{hit.text}</p>{/each}
 */
export function createSearch(
  client: Pick<SearchClientLike, 'search' | 'preload'>,
  options?: TypeaheadOptions,
): SearchStore {
  let text = '';
  let live: Typeahead | undefined;
  const listeners = new Set<(text: string) => void>();
  const { subscribe } = readable<SearchState>({ text, status: 'idle', hits: [] }, (set) => {
    // A server that renders subscribes to stores too.
    if (!globalThis.document) return undefined;
    live = typeahead(client, options);
    live.subscribe((state) => set({ ...state, hits: state.result?.hits ?? [] }));
    live.input(text);
    return () => {
      live?.dispose();
      live = undefined;
    };
  });
  const set = (next: string) => {
    text = next;
    live?.input(text);
    for (const listener of [...listeners]) listener(text);
  };
  return {
    subscribe,
    question: {
      set,
      update: (change) => set(change(text)),
      subscribe(listener) {
        listeners.add(listener);
        listener(text);
        return () => listeners.delete(listener);
      },
    },
    flush: () => live?.flush(),
  };
}
