import path from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import esbuild from 'esbuild';
import { temporaryFolder } from '../stand-in.mjs';

const PACKAGE = fileURLToPath(new URL('../..', import.meta.url));

/** The packages of each version of React that is supported. */
export const VERSIONS = { 18: { react: 'react18', 'react-dom': 'react-dom18' }, 19: {} };

/** The adapter, built with this version of React, and what is needed to render with it. */
export async function reactBuild(t, version) {
  const outfile = path.join(temporaryFolder(t), 'react.cjs');
  await esbuild.build({
    stdin: {
      contents: `
        export * as React from 'react';
        export { createRoot } from 'react-dom/client';
        export { renderToString } from 'react-dom/server';
        export * from 'dpr-web/react';`,
      resolveDir: PACKAGE,
    },
    absWorkingDir: PACKAGE,
    outfile,
    alias: VERSIONS[version],
    bundle: true,
    platform: 'node',
    format: 'cjs',
    define: { 'import.meta.url': '"file:///dist/"' },
    external: ['*/dpr_wasm.js'],
    logLevel: 'error',
  });
  return createRequire(import.meta.url)(outfile);
}
