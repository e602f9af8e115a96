import { getContext, onDestroy, setContext } from 'svelte';
import { createClient } from '../shared/create-client.js';
import type { SearchClientLike } from '../types/client-like.js';
import type { ConnectOptions } from '../types/options.js';

const KEY = 'dpr-web';

/**
 * Gives the components in this one a client: one of the application's own, or one for this address, which loads nothing
 * before somebody searches and is disposed with this component. Call it in the component's script.
 *
 * @example setSearchClient('https://search.example.org/');
 */
export function setSearchClient(client: SearchClientLike | string | URL, options?: ConnectOptions): SearchClientLike {
  if (!(typeof client === 'string' || client instanceof URL)) return setContext(KEY, client);
  const own = createClient(client, options);
  onDestroy(() => own.dispose());
  return setContext<SearchClientLike>(KEY, own);
}

/** The client of the nearest component above that has set one. */
export function getSearchClient(): SearchClientLike {
  const client = getContext<SearchClientLike | undefined>(KEY);
  if (!client) throw new Error('no search client here: call setSearchClient in a component above');
  return client;
}
