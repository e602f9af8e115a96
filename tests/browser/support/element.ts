import type { Page } from '@playwright/test';
import type { DprSearchElement } from '../../../wasm/npm/src/element/index.ts';
import type { FakeClient } from '../../../wasm/npm/src/testing/index.ts';
import { BLANK, PACKAGE, type Gateway } from './gateway.ts';

/** Nothing inline, no evaluation, and no address or markup that no policy has seen. */
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; require-trusted-types-for 'script'; trusted-types 'none'";
const BODY = `
  <main><h1>Search</h1><form action="${BLANK}"><label>Question <dpr-search name="passage" debounce="1"></dpr-search></label>
  <button>Send</button><button type="reset">Reset</button></form></main>`;

/** A page under that policy, with an element whose client is a fake. */
export async function open(page: Page, gateway: Gateway, attributes = '', first: [string, string] = ['First', 'one']): Promise<string[]> {
  const violations: string[] = [];
  page.on('console', (message) => message.type() === 'error' && violations.push(message.text()));
  page.on('pageerror', (error) => violations.push(error.message));
  gateway.intercept(({ path }, response) => {
    if (path !== '/element.html') return false;
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': POLICY });
    response.end(`<!doctype html><html lang="en" ${attributes}><title>element</title><link rel="icon" href="data:,">${BODY}`);
    return true;
  });
  await page.goto(`${gateway.url}/element.html`);
  await page.evaluate(async ([base, title, text]) => {
    const { FakeClient: Fake } = (await import(`${base}testing/index.js`)) as { FakeClient: typeof FakeClient };
    const element = document.querySelector('dpr-search') as DprSearchElement;
    await import(`${base}element/index.js`);
    element.client = new Fake({ hits: [{ id: 'a', title, text }, { id: 'b', title: 'Second', text: '<b>two</b>' }] });
  }, [`${PACKAGE}dist/`, ...first] as const);
  return violations;
}
