import type { LoadOptions } from '../types/options.js';

/** How requests are made: with which `fetch`, headers and cookies. */
export interface Transport {
  /** Sends a request. Headers of the page's own are added for their server alone. */
  send(url: string, init: Omit<RequestInit, 'headers'> & { headers?: Record<string, string> }): Promise<Response>;
}

/** The options that decide it. */
export type TransportOptions = Pick<LoadOptions, 'headers' | 'credentials' | 'fetch'>;

/**
 * Requests with the page's `fetch`, headers and credentials.
 *
 * @param server - whoever the headers are meant for. A manifest may name files on other origins, which get none: an
 * API key is for its own server.
 */
export function transport(options: TransportOptions, server: string | URL | undefined, credentials: RequestCredentials): Transport {
  const origin = server === undefined ? undefined : new URL(server).origin;
  return {
    send(url, init) {
      const own = new URL(url, server).origin === origin ? options.headers : {};
      // Looked up when it is called, as `fetch` itself would be.
      const request = options.fetch ?? globalThis.fetch;
      return request(url, {
        ...init,
        headers: { ...own, ...init.headers },
        credentials: options.credentials ?? credentials,
        // A page may keep the question in its own address; it must not travel as the referrer.
        referrerPolicy: 'no-referrer',
      });
    },
  };
}

/** Requests without anything of the page's own. */
export const PLAIN: Transport = transport({}, undefined, 'same-origin');
