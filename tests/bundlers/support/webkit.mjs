// WebKitGTK by WebDriver: its MiniBrowser on a display that nobody sees.
import { beside, freePort, serve } from './tools.mjs';

const DRIVER = process.env.WEBKIT_DRIVER ?? '/usr/bin/WebKitWebDriver';
const KEYS = { Enter: '\uE007' };
/** How WebDriver's answers name an element. */
const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf';
/** Keeps what goes wrong in the page. The driver hands out no console, and a session without storage prints none. */
const KEEP_ERRORS = `(() => {
  const errors = (globalThis.errorsOfPage = []);
  const keep = (what) => errors.push(String(what));
  const { error } = console;
  console.error = (...what) => (keep(what.join(' ')), error.apply(console, what));
  addEventListener('error', (event) => keep(event.message));
  addEventListener('unhandledrejection', (event) => keep(event.reason));
  document.addEventListener('securitypolicyviolation', (event) => keep(event.violatedDirective + ' ' + event.blockedURI));
})()`;

/** Starts the display and the driver; each page is a session, with storage of its own. */
export async function webkit({ address }) {
  const xvfb = ['Xvfb', '-displayfd', '1', '-screen', '0', '1024x768x24', '-nolisten', 'tcp'];
  const display = await beside('/', xvfb, (said) => /^\d+$/m.test(said));
  const [number] = display.output().match(/^\d+$/m);
  const port = await freePort();
  const env = { DISPLAY: `:${number}`, GDK_BACKEND: 'x11', LIBGL_ALWAYS_SOFTWARE: '1', NO_AT_BRIDGE: '1' };
  const driver = await serve('/', [DRIVER, `--port=${port}`], `http://127.0.0.1:${port}/status`, { env });
  const call = caller(`http://127.0.0.1:${port}/session`);
  const wanted = { proxy: { proxyType: 'manual', httpProxy: address, sslProxy: address, noProxy: [] } };
  let version = 'WebKitGTK';
  return {
    get version() {
      return version;
    },
    // This build has no WebGPU.
    devices: ['cpu'],
    isOwn: () => false,
    open: async () => {
      const { sessionId, capabilities } = await call('POST', '', { capabilities: { alwaysMatch: wanted } });
      version = `WebKitGTK ${capabilities.browserVersion}`;
      const page = new WebKitPage((method, name, body) => call(method, `/${sessionId}${name}`, body));
      return { page, close: () => call('DELETE', `/${sessionId}`) };
    },
    close: async () => {
      await driver.stop();
      await display.stop();
    },
  };
}

const caller = (base) => async (method, name, body) => {
  const answer = await fetch(`${base}${name}`, { method, ...(body && { body: JSON.stringify(body) }) });
  const { value } = await answer.json();
  if (!answer.ok) throw new Error(`WebKit: ${value.error}: ${value.message}`);
  return value;
};

/** A page with the methods of Playwright's that the cases use. */
class WebKitPage {
  #call;

  constructor(call) {
    this.#call = call;
    this.keyboard = { type: (text) => this.#keys(text), press: (key) => this.#keys(KEYS[key]) };
  }

  async goto(url) {
    await this.#call('POST', '/url', { url });
    await this.evaluate(KEEP_ERRORS);
  }

  /** What went wrong in the page since it was loaded. */
  errors() {
    return this.evaluate('globalThis.errorsOfPage ?? []');
  }

  async focus(selector) {
    await this.evaluate(`document.querySelector(${JSON.stringify(selector)}).focus()`);
  }

  evaluate(expression) {
    return this.#call('POST', '/execute/sync', { script: `return ${expression}`, args: [] });
  }

  async #keys(text) {
    const element = (await this.#call('GET', '/element/active'))[ELEMENT];
    await this.#call('POST', `/element/${element}/value`, { text });
  }
}
