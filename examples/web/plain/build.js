// Puts the page and the package's files side by side into `dist`, for any static host or `dpr serve --web dist`.
import { cpSync, rmSync } from 'node:fs';

rmSync('dist', { recursive: true, force: true });
for (const file of ['index.html', 'main.js', 'style.css']) cpSync(file, `dist/${file}`);
for (const part of ['dist/cdn', 'wasm']) cpSync(`node_modules/dpr-web/${part}`, `dist/dpr-web/${part}`, { recursive: true });
