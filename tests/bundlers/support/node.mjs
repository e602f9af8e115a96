// Newer releases of Node.js than the one that runs the tests, from their npm packages.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { makeProject } from './project.mjs';

let project;

/** The folder of the program of a major version, which the template `node` names; nothing where there is none. */
export async function newerNode(major) {
  project ??= makeProject('node');
  const folder = path.join(await project, 'node_modules', `node-${major}-${process.platform}-${process.arch}`, 'bin');
  if (!existsSync(folder))
    throw new Error(`there is no Node.js ${major} for ${process.platform}-${process.arch} in templates/node`);
  return folder;
}
