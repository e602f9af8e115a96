/**
 * Vite from 5 on: a plugin, {@link dprWeb}.
 *
 * @packageDocumentation
 */
import type { IndexHtmlTransformContext, Plugin } from 'vite';

/** Options of {@link dprWeb}. */
export interface DprWebPluginOptions {
  /**
   * Has browsers fetch, when they have nothing else to do, what the first search will want: the encoder's scripts, the
   * worker and the WebAssembly module of the CPU for engines with relaxed SIMD; the others fetch 0.9 MB in vain. For
   * sites whose visitors mostly search. Default `false`.
   * @example dprWeb({ prefetch: true })
   */
  prefetch?: boolean | undefined;
}

/** What the first search on the CPU fetches, by the modules and files that it is made of. */
const ENGINE = /dpr-web\/dist\/(encoder\/(question-encoder|later)|weights\/read-manifest|wire\/read-answer)\.js$/;
const WORKER = /^(?:.*\/)?worker-cpu[^/]*\.js$/;
const MODULE = /wasm\/relaxed\/dpr_wasm_bg\.wasm$/;

/**
 * Does what Vite 5 to 7 need to find the workers in development and in a build; Vite 8 needs nothing. With `prefetch`,
 * the first search waits for less, on any of them.
 *
 * @example
 * // vite.config.js
 * import { dprWeb } from 'dpr-web/vite';
 * export default { plugins: [dprWeb({ prefetch: true })] };
 */
export function dprWeb({ prefetch = false }: DprWebPluginOptions = {}): Plugin {
  let base = '/';
  return {
    name: 'dpr-web',
    config: () => ({
      // Pre-bundling would move the package away from its workers.
      optimizeDeps: { exclude: ['dpr-web'] },
      // A worker of one's own that uses the package has chunks.
      worker: { format: 'es' },
    }),
    configResolved(config) {
      base = config.base;
    },
    transformIndexHtml: {
      order: 'post',
      handler: (_html, { bundle = {}, path }) =>
        (prefetch ? wanted(bundle) : []).map((file) => ({
          tag: 'link',
          // The page's address may hold a question: it must not travel as the referrer.
          attrs: { rel: 'prefetch', href: hrefOf(file, base, path), crossorigin: true, referrerpolicy: 'no-referrer' },
          injectTo: 'head' as const,
        })),
    },
  };
}

/** Names of the files in a build that the first search fetches. */
function wanted(bundle: NonNullable<IndexHtmlTransformContext['bundle']>): string[] {
  const files = Object.values(bundle);
  const withImports = (names: string[]) => {
    const all = new Set(names);
    for (const name of all) {
      const file = bundle[name];
      if (file?.type === 'chunk') for (const next of file.imports) all.add(next);
    }
    return all;
  };
  const isWanted = (file: (typeof files)[number]) =>
    file.type === 'chunk'
      ? file.isDynamicEntry && file.moduleIds.some((id) => ENGINE.test(id))
      : WORKER.test(file.fileName) || file.originalFileNames.some((name) => MODULE.test(name));
  const namesOf = (list: typeof files) => list.map(({ fileName }) => fileName);
  const loaded = withImports(namesOf(files.filter((file) => file.type === 'chunk' && file.isEntry)));
  return [...withImports(namesOf(files.filter(isWanted)))].filter((name) => !loaded.has(name)).sort();
}

/** Address of a file of the build, on this page: with a relative base, as many folders up as the page lies deep. */
function hrefOf(file: string, base: string, page: string): string {
  const isRelative = base === '' || base === './';
  return isRelative ? `${'../'.repeat(page.split('/').length - 2) || './'}${file}` : base + file;
}
