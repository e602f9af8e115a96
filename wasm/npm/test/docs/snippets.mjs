import { blocks, pages, read } from './pages.mjs';

/** Languages of blocks that are no program of a page: other tests look at some of them. */
const OTHER_LANGUAGES = ['', 'text', 'sh', 'json', 'jsonl', 'toml', 'yaml', 'rust', 'python', 'sql', 'ini', 'nginx', 'caddy', 'tsv'];

/**
 * What a snippet may take from the page that it stands in, with its type. A snippet that declares a name itself has its
 * own.
 */
const CONTEXT = {
  client: `import('dpr-web').SearchClient`,
  encoder: `import('dpr-web').QuestionEncoder`,
  manifest: `import('dpr-web').ModelManifest`,
  input: 'HTMLInputElement',
  list: 'HTMLElement',
  text: 'string',
  key: 'string',
  signal: 'AbortSignal',
  freshToken: '() => Promise<string>',
  render: '(...what: unknown[]) => void',
  show: '(...what: unknown[]) => void',
  Search: '() => null',
  expect: '(value: unknown) => { toBe(other: unknown): void }',
  // A service worker's: TypeScript's library has either that or a page's.
  self: `{ addEventListener(type: 'install' | 'activate' | 'fetch', listener: (event: { waitUntil(work: Promise<unknown>): void; request: Request; respondWith(answer: Response | Promise<Response>): void }) => void): void }`,
};

/** Every snippet in JavaScript or TypeScript of these pages, as a module: `{ place, name, source }`. */
export function snippets() {
  return pages().flatMap((page) =>
    blocks(read(page)).flatMap((block) => {
      const place = `${page}:${block.line}`;
      return modules(block, place).map(({ code, jsx = false }, index) => ({
        place,
        name: `${page.replace(/\W/g, '_')}_${block.line}_${index}.${jsx ? 'tsx' : 'ts'}`,
        source: inContext(code),
      }));
    }),
  );
}

function modules({ language, code, reason }, place) {
  if (reason) return [];
  switch (language) {
    case 'ts':
    case 'js':
      return [{ code }];
    case 'tsx':
    case 'jsx':
      return [{ code, jsx: true }];
    case 'html':
      return [...code.matchAll(/<script type="module">\n([\s\S]*?)<\/script>/g)].map(([, code]) => ({ code }));
    case 'vue':
    case 'svelte':
      return []; // Their compilers look at them.
    default:
      if (OTHER_LANGUAGES.includes(language)) return [];
      throw new Error(`${place}: blocks in \`${language}\` are not known: write ts, tsx, js, jsx, html, vue or svelte, or add it to OTHER_LANGUAGES`);
  }
}

function inContext(code) {
  const taken = Object.entries(CONTEXT).filter(([name]) => new RegExp(`(?<![.'"\`\\w-])${name}\\b(?!['"\`:-])`).test(code) && !declares(code, name));
  const declarations = taken.map(([name, type]) => `declare const ${name}: ${type};`);
  // Files of a plain page: what they are is what the package's name stands for.
  const named = code.replace(/'[^']*dpr-web\/dist\/cdn\/index\.js'/g, `'dpr-web'`);
  return `${declarations.join(' ')} export {};\n${named}\n`;
}

function declares(code, name) {
  return new RegExp(`\\b(?:const|let|var|function|class|import)\\s+(?:${name}\\b|\\{[^}=]*\\b${name}\\b[^}]*\\})`).test(code);
}
