import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** A path of the repository, or the one that an environment variable names. */
export function repository(relative: string, variable?: string): string {
  return path.resolve(root, (variable && process.env[variable]) || relative);
}
