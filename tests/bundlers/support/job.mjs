// What a case works with: its project, tools with their time, hosts, and the browser.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { askPage } from './browser.mjs';
import { makeProject, versionOf } from './project.mjs';
import { startSite } from './site.mjs';
import { freePort, run, serve } from './tools.mjs';

/** The work of one case. Whatever it starts ends with `stop`. */
export class Job {
  /** Seconds that the tools took. */
  seconds = 0;
  /** Bytes of JavaScript, once a page was asked. */
  size;
  #started = [];

  constructor({ browsers, server, folder, first }) {
    this.browsers = browsers;
    this.server = server;
    this.folder = folder;
    this.first = first;
  }

  /** Makes the project of a case. `first` are folders that go before PATH. */
  static async of({ template, sources }, shared) {
    return new Job({ ...shared, folder: await makeProject(template, sources) });
  }

  version(name) {
    return versionOf(this.folder, name);
  }

  /** Runs a tool of the project, and returns what it printed. */
  async tool(...command) {
    const start = performance.now();
    try {
      return await run(this.folder, command, { first: this.first });
    } finally {
      this.seconds += (performance.now() - start) / 1000;
    }
  }

  /** Puts Bun's program in its place, which is what npm runs after the installation; not a part of the build's time. */
  async placeBun() {
    await run(this.folder, ['node', 'node_modules/bun/install.js'], { first: this.first });
  }

  /** Starts a server of the project on a free port, which `command` is given, and returns its address. */
  async serve(command, base = '/') {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}${base}`;
    const server = await serve(this.folder, command(String(port)), url, { first: this.first });
    this.#started.push(server);
    return server.url;
  }

  /** Serves files of the project and returns their address. */
  async site(folder, options) {
    const site = await startSite(path.join(this.folder, folder), options);
    this.#started.push(site);
    return site.url;
  }

  /** Asks the page in each browser, with each device that the browser has. */
  async ask(url, options) {
    const watched = [this.server, ...this.#started].filter(({ requests }) => requests);
    for (const browser of this.browsers) {
      try {
        const size = await askPage(browser, url, { server: this.server, watched, ...options });
        this.size ??= size;
      } catch (error) {
        throw new Error(`${browser.name}, ${error.message}`, { cause: error });
      }
    }
  }

  copy(from, to) {
    cpSync(path.join(this.folder, from), path.join(this.folder, to), { recursive: true });
  }

  read(name) {
    return readFileSync(path.join(this.folder, name), 'utf8');
  }

  write(name, text) {
    const file = path.join(this.folder, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text);
  }

  async stop() {
    await Promise.all(this.#started.map((started) => started.stop()));
  }
}
