import type { QuestionEncoder } from '../encoder/question-encoder.js';
import { WorkerSession } from '../encoder/worker-session.js';
import { DprWebError } from '../errors/dpr-web-error.js';
import { EncoderError } from '../errors/encoder-error.js';
import { ManifestError } from '../errors/manifest-error.js';
import { OptionError } from '../errors/option-error.js';
import { PrivacyError } from '../errors/privacy-error.js';
import { ServerError } from '../errors/server-error.js';
import { SpoiledAnswerError } from '../errors/spoiled-answer-error.js';
import type { PrivateCall, PrivateCallName, PrivateCalls } from '../worker/private/calls.js';
import { workerSource } from '../worker/worker-source.js';
import type { PrivateParts } from './parts.js';

const own = new WeakMap<object, Promise<WorkerSession>>();

/**
 * The worker that does private search for a client: the encoder's, or, where that is on the GPU, may yet move there, or
 * is shared with other tabs, one more with the module for the CPU.
 */
export async function sessionOf(parts: PrivateParts, encoder: QuestionEncoder): Promise<WorkerSession> {
  const [client, , { device = 'auto', measure }] = parts;
  // Timing puts another worker in the place of this one, and ends what is half done in it.
  const stays =
    device !== 'auto' || measure === 'never' || !(globalThis.navigator as Partial<Navigator> | undefined)?.gpu;
  if (stays && encoder.device === 'cpu' && !encoder.isShared) return encoding(encoder);
  let opening = own.get(client);
  if (!opening) {
    opening = open(parts, () => own.delete(client));
    own.set(client, opening);
    opening.catch(() => own.delete(client));
  }
  return opening;
}

/** The worker that encodes. By way of the class that the encoder is of: this script must not bring one of its own. */
function encoding(encoder: QuestionEncoder): WorkerSession {
  return (encoder.constructor as typeof QuestionEncoder).session(encoder) as WorkerSession;
}

async function open([, , options, , life]: PrivateParts, onEnd: () => void): Promise<WorkerSession> {
  // What is secret is not for a worker that other tabs use.
  const { createWorker, ...rest } = options;
  const workers = await workerSource(
    options.worker === 'shared' ? { ...rest, worker: 'dedicated' } : { ...rest, createWorker },
  );
  life.throwIfAborted();
  const session = new WorkerSession('cpu', workers, 'private');
  session.onFatal = onEnd;
  life.addEventListener('abort', () => session.end(life.reason as Error), { once: true });
  try {
    await session.start();
    return session;
  } catch (error) {
    session.end(error as Error);
    throw typed(error);
  }
}

/** Has a worker do a part of private search. */
export async function call<N extends PrivateCallName>(
  session: WorkerSession,
  name: N,
  ask: PrivateCalls[N]['ask'],
  transfer: Transferable[] = [],
): Promise<PrivateCalls[N]['answer']> {
  try {
    const { answer } = await session.ask({ type: 'private', call: { name, ...ask } as PrivateCall }, 'private', { transfer });
    return answer as PrivateCalls[N]['answer'];
  } catch (error) {
    throw typed(error);
  }
}

/** The ids of a question's tokens. */
export async function tokensOf(encoder: QuestionEncoder, text: string, signal: AbortSignal): Promise<Uint32Array> {
  try {
    return (await encoding(encoder).ask({ type: 'tokens', text }, 'tokens', { signal })).tokens;
  } catch (error) {
    signal.throwIfAborted();
    throw typed(error);
  }
}

/** The error of this package for what a worker could not do. */
function typed(error: unknown): unknown {
  if (error instanceof DprWebError) return error;
  const { code, message } = error as { code?: string; message: string };
  const cause = { cause: error };
  switch (code) {
    case 'spoiled_answer':
      return new SpoiledAnswerError(message, cause);
    case 'unknown_parameters':
      return new PrivacyError(code, message, 'Nothing was sent. Use the release of dpr-web that belongs to the server.', cause);
    case 'invalid_manifest':
      return new ManifestError(message);
    case 'invalid_option':
      return new OptionError(message, 'Give a number in that range.', cause);
    case 'unexpected_answer':
      return new ServerError(code, 200, `the answer of the search server is not one of this release: ${message}`, 'Tell who runs the server.', cause);
    default:
      return new EncoderError(`private search failed: ${message}`, undefined, code, cause);
  }
}
