// All cases, in the order of the table.
import { bundlers, bun } from './bundlers.mjs';
import { checks } from './checks.mjs';
import { examples, frameworks } from './frameworks.mjs';
import { pages } from './pages.mjs';
import { runtimes } from './runtimes.mjs';
import { olderVite, vite } from './vite.mjs';

/**
 * A case: `template` is the folder of `templates` with its lock file, `sources` are folders whose files go over it,
 * `packages` those whose versions the table tells, `node` the Node.js that runs its tools, if another than the tests',
 * `browsers` those that its page is asked in, Chromium where it names none, and `short` those of the short set, which is
 * part of `cargo xtask test`.
 */
export const CASES = [...vite, ...bundlers, ...pages, ...olderVite, ...frameworks, ...examples, bun, ...runtimes, ...checks];

/** The browsers that a case is run for, of those that are asked for: none when it is not a part of the set. */
export function browsersOf({ browsers = ['chromium'], short = [] }, wanted, isShort) {
  return wanted.filter((name) => (isShort ? short : browsers).includes(name));
}
