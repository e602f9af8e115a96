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
 * `short` whether it is part of `cargo xtask test`, and `firefox` whether of the set for Firefox.
 */
export const CASES = [...vite, ...bundlers, ...pages, ...olderVite, ...frameworks, ...examples, bun, ...runtimes, ...checks];
