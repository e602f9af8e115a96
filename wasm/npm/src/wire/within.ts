import { Silence } from './silence.js';
import { untilAborted } from './until-aborted.js';

/** A limit of time, in milliseconds, and the error for what takes longer. */
export interface TimeLimit {
  milliseconds: number;
  error(): Error;
}

/**
 * Runs `work` with a controller that fires with the first of these signals, or when the time is up. When it fires, the
 * promise rejects with its reason at once, whatever `work` makes of it: a page's own `fetch` may know nothing of
 * signals. In the place of `AbortSignal.any`, which Safari has from 17.4 on and which leaves its listeners on signals
 * that live long.
 */
export async function within<T>(
  signals: (AbortSignal | undefined)[],
  work: (stop: AbortController) => Promise<T>,
  limit?: TimeLimit,
): Promise<T> {
  const stop = new AbortController();
  const silence = new Silence();
  const onAbort = (event: Event) => stop.abort((event.target as AbortSignal).reason);
  for (const signal of signals) {
    if (signal?.aborted) stop.abort(signal.reason);
    signal?.addEventListener('abort', onAbort);
  }
  if (limit) silence.wait(limit.milliseconds, () => stop.abort(limit.error()));
  try {
    stop.signal.throwIfAborted();
    return await untilAborted(work(stop), stop.signal);
  } catch (error) {
    // What else `work` began ends too.
    if (!stop.signal.aborted) stop.abort(error);
    throw stop.signal.reason;
  } finally {
    silence.stop();
    for (const signal of signals) signal?.removeEventListener('abort', onAbort);
  }
}

/** Waits for so many milliseconds, or rejects with the signal's reason if it fires before. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  let timer: ReturnType<typeof setTimeout>;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  return untilAborted(over, signal, () => clearTimeout(timer));
}
