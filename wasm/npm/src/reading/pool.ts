import { SessionEnded } from '../encoder/worker-failure.js';
import type { WorkerSession } from '../encoder/worker-session.js';

/** How often a passage is tried while workers end under it. */
const MOST_ATTEMPTS = 2;

interface Job<T> {
  input: T;
  attempts: number;
}

/** Workers with the same model in each. They are started when there is work for them, and kept. */
export class Pool {
  readonly #open: () => Promise<WorkerSession>;
  readonly #size: number;
  readonly #sessions = new Map<number, Promise<WorkerSession>>();

  /** @param open - starts a worker and loads the model */
  constructor(size: number, open: () => Promise<WorkerSession>) {
    this.#size = size;
    this.#open = open;
  }

  /**
   * Does `work` for each input, in their order, at as many as there are workers at once. Nothing more is begun once the
   * signal has fired.
   *
   * @throws what `work` throws, what the first worker could not be started for, or the signal's reason
   */
  async each<T>(
    inputs: readonly T[],
    work: (session: WorkerSession, input: T) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const waiting: Job<T>[] = inputs.map((input) => ({ input, attempts: 0 }));
    const lane = async (at: number) => {
      while (waiting.length > 0) {
        signal.throwIfAborted();
        const opening = this.#at(at);
        let session: WorkerSession;
        try {
          session = await opening;
        } catch (error) {
          // The first one does it alone then, if it must.
          if (at > 0) return;
          throw error;
        }
        signal.throwIfAborted();
        const job = waiting.shift();
        if (!job) return;
        try {
          await work(session, job.input);
        } catch (error) {
          signal.throwIfAborted();
          if (!(error instanceof SessionEnded)) throw error;
          this.#forget(at, opening);
          if (++job.attempts === MOST_ATTEMPTS) throw error;
          waiting.unshift(job);
        }
      }
    };
    // After a worker has ended, the first lane may be through with its own already.
    try {
      while (waiting.length > 0) {
        await Promise.all(Array.from({ length: Math.min(this.#size, waiting.length) }, (_, at) => lane(at)));
      }
    } finally {
      // The others stop at the next passage.
      waiting.length = 0;
    }
  }

  /** Ends the workers. */
  end(reason: Error): void {
    for (const session of this.#sessions.values()) {
      session.then((session) => session.end(reason)).catch(() => undefined);
    }
    this.#sessions.clear();
  }

  #at(at: number): Promise<WorkerSession> {
    let session = this.#sessions.get(at);
    if (!session) {
      session = this.#open();
      this.#sessions.set(at, session);
      const opening = session;
      session.catch(() => this.#forget(at, opening));
    }
    return session;
  }

  #forget(at: number, session: Promise<WorkerSession>): void {
    if (this.#sessions.get(at) === session) this.#sessions.delete(at);
  }
}
