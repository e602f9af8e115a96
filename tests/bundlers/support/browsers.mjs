// The browsers: what differs between the programs that drive them.
import { createRequire } from 'node:module';
import path from 'node:path';
import { makeProject } from './project.mjs';

/** Chromium by Playwright, which the tests of the search page have installed. */
async function chromium() {
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
    version: browser.version(),
    devices: ['cpu', 'webgpu'],
    open: () => opened(browser.newContext()),
    bodyOf: (response) => response.body(),
    close: () => browser.close(),
  };
}

/** Firefox by WebDriver BiDi: Playwright drives only a Firefox of its own. */
async function firefox() {
  const folder = await makeProject('firefox');
  const puppeteer = createRequire(path.join(folder, 'package.json'))('puppeteer-core');
  const browser = await puppeteer.launch({
    browser: 'firefox',
    executablePath: process.env.FIREFOX ?? '/usr/bin/firefox-esr',
  });
  return {
    version: await browser.version(),
    // No WebGPU without a GPU.
    devices: ['cpu'],
    open: () => opened(browser.createBrowserContext()),
    bodyOf: async () => Buffer.alloc(0),
    close: () => browser.close(),
  };
}

/** A page with storage of its own. */
async function opened(made) {
  const context = await made;
  return { page: await context.newPage(), close: () => context.close() };
}

export const BROWSERS = { chromium, firefox };
