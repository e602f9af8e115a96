import { createContext, createElement, useContext, type ReactElement, type ReactNode } from 'react';
import type { SearchClientLike } from '../types/client-like.js';
import type { ConnectOptions } from '../types/options.js';
import { useOwnClient } from './client.js';

const Context = createContext<SearchClientLike | undefined>(undefined);

/** Properties of {@link SearchProvider}: `client`, or `url` and `options`. */
export type SearchProviderProps = { children?: ReactNode } & (
  | {
      /** A client of the application's own, which disposes it too. */
      client: SearchClientLike;
      url?: never;
      options?: never;
    }
  | {
      client?: never;
      /** Address of the server, absolute or relative to the document. Another address makes another client. */
      url: string | URL;
      /** Options of the client. Those of the first render count. */
      options?: ConnectOptions | undefined;
    }
);

/**
 * Gives the components in it one client. The client that it makes itself loads nothing before somebody searches, and is
 * disposed when the provider goes. Rendered on a server, it touches nothing.
 *
 * Put `<Suspense>` inside it: what is outside a suspended component's boundary is kept, what is inside is made again.
 *
 * @example
 * createRoot(element).render(
 *   <SearchProvider url="https://search.example.org/">
 *     <Search />
 *   </SearchProvider>,
 * );
 */
export function SearchProvider({ client, url, options, children }: SearchProviderProps): ReactElement {
  return createElement(Context.Provider, { value: useOwnClient(client, url, options) }, children);
}

/**
 * The client of the nearest {@link SearchProvider}.
 *
 * @example
 * const client = useSearchClient();
 * <input onFocus={() => client.preload()} />
 */
export function useSearchClient(): SearchClientLike {
  const client = useContext(Context);
  if (!client) throw new Error('no search client here: put <SearchProvider> around the components that search');
  return client;
}
