import { DownloadError } from '../errors/download-error.js';
import type { ProgressListener } from '../types/progress.js';
import type { ModelFiles } from '../weights/model-files.js';
import { streamModelFiles, type StreamedFiles } from '../weights/stream-model.js';
import { transport } from '../wire/transport.js';
import type { FileOrder } from './file-order.js';

/** A violation of a policy is told of in a task of its own, soon after the request has failed; in milliseconds. */
const POLICY_DELAY = 50;

interface PolicyScope {
  addEventListener?(type: 'securitypolicyviolation', listener: (event: { effectiveDirective: string }) => void): void;
  removeEventListener?(type: 'securitypolicyviolation', listener: (event: { effectiveDirective: string }) => void): void;
}

/**
 * Downloads the files that a page ordered, in its worker, as the page itself would. Weights may be on their way still.
 *
 * @returns `undefined` where the policy of the worker's script forbids it: the page's own may be another
 */
export async function fetchOrdered(
  { manifest, dtype, network, server }: FileOrder,
  onProgress: ProgressListener,
  signal?: AbortSignal,
): Promise<ModelFiles | StreamedFiles | undefined> {
  const scope = globalThis as PolicyScope;
  let isForbidden = false;
  const onViolation = (event: { effectiveDirective: string }) => {
    isForbidden ||= event.effectiveDirective === 'connect-src';
  };
  scope.addEventListener?.('securitypolicyviolation', onViolation);
  try {
    return await streamModelFiles(manifest, dtype, onProgress, transport(network, server, 'same-origin'), signal);
  } catch (error) {
    if (error instanceof DownloadError && error.status === 0) {
      await new Promise((resolve) => setTimeout(resolve, POLICY_DELAY));
      if (isForbidden) return undefined;
    }
    throw error;
  } finally {
    scope.removeEventListener?.('securitypolicyviolation', onViolation);
  }
}
