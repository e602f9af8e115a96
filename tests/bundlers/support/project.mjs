// A project of a user: the files of a template, the packages of its lock file, and the tarball.
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from './tools.mjs';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
export const TARBALL = path.resolve(ROOT, process.env.DPR_WEB_TARBALL ?? 'wasm/npm/dpr-web.tgz');
export const TEMPLATES = path.join(ROOT, 'tests/bundlers/templates');
const PROJECTS = path.join(ROOT, 'target/bundlers');
const NPM = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];

/**
 * Makes the project of a template with a lock file, below `target/bundlers`. Its packages stay there for the next run, as
 * long as the lock file and the tarball do; everything else is new.
 *
 * @param template - the folder with the lock file
 * @param sources - folders whose files go over those of the template, in this order
 * @returns the project's folder
 */
export async function makeProject(template, sources = []) {
  const folder = path.join(PROJECTS, template);
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(folder)) {
    if (name !== 'node_modules') rmSync(path.join(folder, name), { recursive: true, force: true });
  }
  // Caches of Vite and others.
  for (const name of ['.vite', '.cache'])
    rmSync(path.join(folder, 'node_modules', name), { recursive: true, force: true });
  cpSync(path.join(TEMPLATES, template), folder, { recursive: true, filter: isSource });
  for (const source of sources) {
    // Versions are those of the template's lock file, whatever ranges an example names.
    const filter = (file) => isSource(file) && path.basename(file) !== 'package.json';
    cpSync(path.resolve(TEMPLATES, source), folder, { recursive: true, filter });
  }
  await install(folder);
  return folder;
}

const isSource = (file) => path.basename(file) !== 'node_modules';

async function install(folder) {
  const stamp = path.join(folder, 'node_modules/.installed');
  const lock = readFileSync(path.join(folder, 'package-lock.json'));
  const wanted = createHash('sha256').update(lock).update(readFileSync(TARBALL)).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  if (isWhole(JSON.parse(lock))) await run(folder, ['npm', 'ci', ...NPM]);
  await run(folder, ['npm', 'install', '--no-save', '--prefer-offline', ...NPM, TARBALL]);
  writeFileSync(stamp, wanted);
}

/**
 * Whether a lock file has the packages for every platform. One that was written with a registry that lacks some has not;
 * `npm ci` refuses it, and `npm install` takes the versions and hashes of the others from it all the same.
 */
export function isWhole({ packages }) {
  const names = new Set(Object.keys(packages).map((place) => place.split('node_modules/').at(-1)));
  return Object.values(packages).every(({ optionalDependencies = {} }) =>
    Object.keys(optionalDependencies).every((name) => names.has(name)),
  );
}

/** The version of a package that is installed. */
export function versionOf(folder, name) {
  return JSON.parse(readFileSync(path.join(folder, 'node_modules', name, 'package.json'), 'utf8')).version;
}
