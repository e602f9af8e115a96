import { EncoderError } from '../errors/encoder-error.js';
import type { Device } from '../types/device.js';
import { isDeviceFailure, messageOf } from './device-failure.js';
import { WorkerFailure } from './worker-failure.js';
import type { WorkerSession } from './worker-session.js';

/** Starts an encoder on a device. */
export type Open = (
  device: Device,
  keepFiles: boolean,
  signal?: AbortSignal,
  onStarted?: () => void,
) => Promise<WorkerSession>;

/** The CPU, or an error of this package. */
export async function openCpu(open: Open, keepFiles: boolean, signal: AbortSignal): Promise<WorkerSession> {
  try {
    return await open('cpu', keepFiles);
  } catch (error) {
    signal.throwIfAborted();
    if (!isDeviceFailure(error)) throw error;
    const { fix, code } = error instanceof WorkerFailure ? error : {};
    const message = `the question encoder could not be started: ${messageOf(error)}`;
    throw new EncoderError(message, fix, code, { cause: error });
  }
}
