import { inject, type App, type InjectionKey, type Plugin } from 'vue';
import { createClient } from '../shared/create-client.js';
import type { SearchClientLike } from '../types/client-like.js';
import type { ConnectOptions } from '../types/options.js';

/** A client, made when somebody wants it. */
type Source = () => SearchClientLike;

const KEY: InjectionKey<Source> = Symbol('dpr-web');

/** Options of {@link createSearch}: `client`, or `url` and `options`. */
export type SearchPluginOptions =
  | {
      /** A client of the application's own, which disposes it too. */
      client: SearchClientLike;
      url?: never;
      options?: never;
    }
  | {
      client?: never;
      /** Address of the server, absolute or relative to the document. */
      url: string | URL;
      options?: ConnectOptions | undefined;
    };

/**
 * Gives all components of an application one client. The client that it makes itself loads nothing before somebody
 * searches, and is disposed with the application. Rendered on a server, it touches nothing.
 *
 * @example createApp(App).use(createSearch({ url: 'https://search.example.org/' })).mount('#app');
 */
export function createSearch({ client, url, options }: SearchPluginOptions): Plugin {
  return {
    install(app: App) {
      let own: SearchClientLike | undefined;
      app.provide(KEY, () => client ?? (own ??= createClient(url, options)));
      const unmount = app.unmount;
      app.unmount = () => {
        unmount();
        own?.dispose();
        own = undefined;
      };
    },
  };
}

/** What makes the client. For components of this package. */
export function useSource(): Source {
  const source = inject(KEY, undefined);
  if (!source) throw new Error('no search client here: app.use(createSearch({ url })) first');
  return source;
}

/**
 * The client of the application, in `setup`.
 *
 * @example
 * const client = useSearchClient();
 * onMounted(() => client.preload());
 */
export function useSearchClient(): SearchClientLike {
  return useSource()();
}
