import { useEffect, useMemo, useState } from 'react';
import { createClient } from '../shared/create-client.js';
import type { SearchClientLike } from '../types/client-like.js';
import type { ConnectOptions } from '../types/options.js';

/** A client, and when it goes. */
interface Slot {
  client: SearchClientLike;
  leaving?: ReturnType<typeof setTimeout> | undefined;
}

/**
 * The given client, or one for this address that is disposed with the component. Under StrictMode, which mounts
 * everything twice, it stays the same.
 */
export function useOwnClient(
  given: SearchClientLike | undefined,
  url: string | URL | undefined,
  options: ConnectOptions | undefined,
): SearchClientLike {
  const [round, again] = useState(0);
  const address = url === undefined ? undefined : String(url);
  // biome-ignore lint/correctness/useExhaustiveDependencies: options of another render make no other client
  const slot = useMemo((): Slot => ({ client: given ?? create(address, options) }), [given, address, round]);
  useEffect(() => {
    if (given) return undefined;
    clearTimeout(slot.leaving);
    // A page that was hidden for long shows again.
    if (slot.client.state === 'disposed') again((count) => count + 1);
    return () => {
      // Not at once: StrictMode mounts it again right away.
      slot.leaving = setTimeout(() => slot.client.dispose());
    };
  }, [given, slot]);
  return slot.client;
}

function create(address: string | undefined, options: ConnectOptions | undefined): SearchClientLike {
  if (address === undefined) throw new Error('SearchProvider has neither `client` nor `url`: give it one of them');
  return createClient(address, options);
}
