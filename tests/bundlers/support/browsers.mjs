// The browsers: what differs between the programs that drive them. Each sends all that its pages send through a recorder.
import { createRequire } from 'node:module';
import path from 'node:path';
import { makeProject } from './project.mjs';
import { webkit } from './webkit.mjs';

/** Chromium by Playwright, which the tests of the search page have installed. */
async function chromium({ address }) {
  const { chromium: launcher } = createRequire(new URL('../../browser/package.json', import.meta.url))(
    '@playwright/test',
  );
  const browser = await launcher.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    // A software WebGPU adapter, for machines without a GPU.
    args: [
      '--headless=new',
      '--no-sandbox',
      '--disable-quic',
      '--disable-background-networking',
      '--disable-component-update',
      '--enable-unsafe-webgpu',
      '--use-webgpu-adapter=swiftshader',
      '--enable-features=Vulkan',
    ],
  });
  return {
    version: `Chromium ${browser.version()}`,
    devices: ['cpu', 'webgpu'],
    // It asks its maker what the fields of a form are for. The recorder passes that on to nobody.
    isOwn: (what) => what === 'content-autofill.googleapis.com:443',
    open: () => opened(browser.newContext({ proxy: { server: `http://${address}`, bypass: '<-loopback>' } })),
    close: () => browser.close(),
  };
}

/** Firefox by WebDriver BiDi: Playwright drives only a Firefox of its own. */
async function firefox({ address }) {
  const folder = await makeProject('firefox');
  const puppeteer = createRequire(path.join(folder, 'package.json'))('puppeteer-core');
  const [host, port] = address.split(':');
  const browser = await puppeteer.launch({
    browser: 'firefox',
    executablePath: process.env.FIREFOX ?? '/usr/bin/firefox-esr',
    extraPrefsFirefox: {
      'network.proxy.type': 1,
      'network.proxy.http': host,
      'network.proxy.http_port': Number(port),
      'network.proxy.ssl': host,
      'network.proxy.ssl_port': Number(port),
      'network.proxy.allow_hijacking_localhost': true,
      'network.proxy.no_proxies_on': '',
    },
  });
  return {
    version: (await browser.version()).replace('/', ' '),
    // No WebGPU without a GPU.
    devices: ['cpu'],
    // It asks its maker for lists and settings, with or without a page.
    isOwn: (what) => /^[\w.-]+\.mozilla\.(com|net|org):443$/.test(what),
    open: () => opened(browser.createBrowserContext()),
    close: () => browser.close(),
  };
}

/** A page with storage of its own. */
async function opened(made) {
  const context = await made;
  return { page: await context.newPage(), close: () => context.close() };
}

export const BROWSERS = { chromium, firefox, webkit };
