import { DprWebError } from '../errors/dpr-web-error.js';
import type { NetworkOptions } from '../types/network.js';
import { pause } from './within.js';

const TRIES = 3;
/** Nobody waits longer for another try, in milliseconds: the error says when to come back. */
const LONGEST_PAUSE = 30_000;
/** A connection over which nothing comes for this long is as good as broken, in milliseconds. */
const STALL_TIMEOUT = 30_000;
/** No answer at all, a request that took too long, too many of them, and servers that are not there at the moment. */
const PASSING = [0, 408, 429, 502, 503, 504];

type OwnHeaders = Record<string, string>;

/** How requests are made: with which `fetch`, headers and cookies, and how often. */
export interface Transport {
  /** The page's own headers for this address: for their server alone, and where it redirects to. */
  headers(url: string): Promise<OwnHeaders>;
  /** Sends a request with them. */
  send(url: string, init: RequestInit & { headers?: OwnHeaders }, own?: OwnHeaders): Promise<Response>;
  /** Does it once, and again after a failure that may pass. */
  retrying<T>(signal: AbortSignal, once: () => Promise<T>): Promise<T>;
  /** Longest wait for the next byte, in milliseconds. */
  stallTimeout: number;
}

/**
 * Requests with the page's `fetch`, headers and credentials.
 *
 * @param server - whoever the headers are meant for. A manifest may name files on other origins, which get none: an
 * API key is for its own server.
 */
export function transport(
  options: NetworkOptions,
  server: string | URL | undefined,
  credentials: RequestCredentials,
): Transport {
  const origin = server === undefined ? undefined : new URL(server).origin;
  const { retry = TRIES - 1, stallTimeout = STALL_TIMEOUT } = options;
  const { limit = TRIES - 1, delay = backOff } = typeof retry === 'number' ? { limit: retry } : retry;
  const headers: Transport['headers'] = async (url) => {
    if (new URL(url, server).origin !== origin) return {};
    return { ...(typeof options.headers === 'function' ? await options.headers() : options.headers) };
  };
  return {
    headers,
    stallTimeout,
    async send(url, init, own) {
      const all = { ...(own ?? (await headers(url))), ...init.headers };
      init.signal?.throwIfAborted();
      // Looked up when it is called, as `fetch` itself would be.
      const request = options.fetch ?? globalThis.fetch;
      return request(url, {
        ...init,
        headers: all,
        credentials: options.credentials ?? credentials,
        // A page may keep the question in its own address; it must not travel as the referrer.
        referrerPolicy: 'no-referrer',
      });
    },
    async retrying(signal, once) {
      for (let attempt = 1; ; attempt++) {
        try {
          return await once();
        } catch (error) {
          signal.throwIfAborted();
          if (attempt > limit || !mayPass(error)) throw error;
          const wait = error.retryAfter === undefined ? delay(attempt) : error.retryAfter * 1000;
          if (wait > LONGEST_PAUSE) throw error;
          await pause(wait, signal);
        }
      }
    },
  };
}

/** Requests without anything of the page's own. */
export const PLAIN: Transport = /* @__PURE__ */ transport({}, undefined, 'same-origin');

function mayPass(error: unknown): error is DprWebError & { status: number } {
  return error instanceof DprWebError && PASSING.includes((error as { status?: number }).status ?? -1);
}

/** 0.3, 0.6, 1.2 … seconds, and up to half as long again: pages that failed together should not come back together. */
function backOff(attempt: number): number {
  return 150 * 2 ** attempt * (1 + Math.random() / 2);
}
