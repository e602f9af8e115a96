import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root of the repository. */
export const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));

/** The text of a file of the repository. */
export const read = (file) => readFileSync(path.join(ROOT, file), 'utf8');

/** Pages outside the book that show how the package is used. */
const OTHERS = ['README.md', 'wasm/npm/README.md', 'examples/web/README.md', 'web-demo/README.md'];

/** The pages that have snippets for users of the package: those of the book, and the READMEs. */
export function pages() {
  const book = readdirSync(path.join(ROOT, 'docs'), { recursive: true }).filter((file) => file.endsWith('.md'));
  return [...OTHERS, ...book.map((file) => `docs/${file.replaceAll('\\', '/')}`)].sort();
}

/** The fenced blocks of a page: `language`, `code`, the `line` of the fence, and the reason of `<!-- not compiled: … -->`. */
export function blocks(text) {
  const found = [];
  let open;
  let before = '';
  for (const [index, line] of text.split('\n').entries()) {
    const fence = /^(\s*)```(.*)$/.exec(line);
    if (open && fence && fence[2].trim() === '') {
      found.push({ ...open, code: open.lines.join('\n') });
      open = undefined;
    } else if (open) {
      open.lines.push(line.startsWith(open.indent) ? line.slice(open.indent.length) : line);
    } else if (fence) {
      const reason = /^<!-- not compiled: (.+) -->$/.exec(before.trim())?.[1];
      open = { language: fence[2].trim(), line: index + 1, indent: fence[1], lines: [], reason };
    }
    if (line.trim() !== '') before = line;
  }
  return found;
}
