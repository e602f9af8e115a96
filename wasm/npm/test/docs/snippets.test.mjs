import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { compile } from 'svelte/compiler';
import { compileScript, compileTemplate, parse } from 'vue/compiler-sfc';
import { temporaryFolder } from '../stand-in.mjs';
import { blocks, pages, read } from './pages.mjs';
import { snippets } from './snippets.mjs';

const PACKAGE = fileURLToPath(new URL('../..', import.meta.url));
const MODULES = path.join(PACKAGE, 'node_modules');
const OPTIONS = {
  noEmit: true,
  strict: true,
  // Snippets in JavaScript have no types of their own.
  noImplicitAny: false,
  noImplicitThis: false,
  target: 'es2022',
  module: 'esnext',
  moduleResolution: 'bundler',
  lib: ['es2022', 'esnext.disposable', 'dom', 'dom.iterable'],
  jsx: 'preserve',
  allowImportingTsExtensions: true,
  types: ['node'],
  skipLibCheck: true,
};

/** What TypeScript says of these modules, one `place: error` each. */
function errorsOf(t, modules) {
  const folder = temporaryFolder(t);
  mkdirSync(path.join(folder, 'node_modules'));
  for (const name of readdirSync(MODULES)) if (!name.startsWith('.')) symlinkSync(path.join(MODULES, name), path.join(folder, 'node_modules', name));
  symlinkSync(PACKAGE, path.join(folder, 'node_modules/dpr-web'));
  // Files that snippets have beside them, and a framework that is not among the package's own packages.
  writeFileSync(path.join(folder, 'beside.d.ts'), "declare module '*.vue';\ndeclare module 'nuxt/app' {\n  export function defineNuxtPlugin(plugin: (nuxt: { vueApp: import('vue').App }) => void): unknown;\n}\n");
  writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: OPTIONS, include: ['*'] }));
  for (const { name, source } of modules) writeFileSync(path.join(folder, name), source);
  const { stdout, stderr } = spawnSync(process.execPath, [path.join(MODULES, 'typescript/bin/tsc'), '--pretty', 'false', '-p', folder], { encoding: 'utf8', cwd: folder });
  assert.equal(stderr, '');
  return stdout.split('\n').filter((line) => / error /.test(line)).map((line) => {
    const [, name, row, what] = /^(.*?)\((\d+),\d+\): (.*)$/.exec(line) ?? [undefined, '', 1, line];
    const snippet = modules.find((module) => module.name === path.basename(name));
    if (!snippet) return line;
    const [page, first] = snippet.place.split(':');
    return `${page}:${Number(first) + Number(row) - 1}: ${what}`;
  });
}

test('every snippet of the documentation compiles with the types of the package', (t) => {
  const modules = snippets();
  assert.ok(modules.length > 40, `only ${modules.length} snippets were found`);
  assert.deepEqual(errorsOf(t, modules), []);
});

test('a snippet that uses what the package does not have is found, with its page and line', (t) => {
  const source = "export {};\nimport { SearchClient } from 'dpr-web';\nSearchClient.create('/').find('who');\n";
  const [error, ...more] = errorsOf(t, [{ place: 'docs/a.md:7', name: 'a.ts', source }]);
  assert.match(error, /^docs\/a\.md:9: error TS2339: Property 'find' does not exist on type 'SearchClient'/);
  assert.deepEqual(more, []);
});

test('components of Svelte and Vue in the documentation compile, and import what is there', (t) => {
  const scripts = [];
  for (const page of pages()) {
    for (const { language, code, line } of blocks(read(page))) {
      const place = `${page}:${line}`;
      if (language === 'svelte') assert.deepEqual(compile(code, { filename: 'Snippet.svelte' }).warnings, [], place);
      else if (language === 'vue') {
        const { descriptor, errors } = parse(code);
        const { bindings } = compileScript(descriptor, { id: place });
        const template = compileTemplate({ source: descriptor.template.content, filename: 'Snippet.vue', id: place, compilerOptions: { bindingMetadata: bindings } });
        assert.deepEqual([...errors, ...template.errors], [], place);
      } else continue;
      const imports = [...code.matchAll(/^\s*(import .*;)$/gm)].map(([, statement]) => statement);
      scripts.push({ place, name: `${page.replace(/\W/g, '_')}_${line}.ts`, source: `export {};\n${imports.join('\n')}\n` });
    }
  }
  assert.ok(scripts.length >= 3, `only ${scripts.length} components were found`);
  assert.deepEqual(errorsOf(t, scripts), []);
});
