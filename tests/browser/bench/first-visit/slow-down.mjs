// A slower processor for pages and their workers. Chromium's own emulation (`Emulation.setCPUThrottlingRate`) slows the
// page's main thread and leaves workers as they are; so the processes that run pages are stopped most of the time.
import { readFileSync, readdirSync } from 'node:fs';

/** Of this many milliseconds, the processes run one part in `times`. */
const PERIOD_MS = 40;

/**
 * Slows the renderers of a browser down.
 *
 * @param browser - the only one that this process started
 * @returns a function that ends it
 */
export async function slowDown(browser, times) {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  const main = processInfo.find(({ type }) => type === 'browser').id;
  let renderers = renderersOf(main);
  const send = (signal) => {
    for (const id of renderers) {
      try {
        process.kill(id, signal);
      } catch {
        // It has ended.
      }
    }
  };
  let phase = 0;
  const step = PERIOD_MS / times;
  const timer = setInterval(() => {
    phase = (phase + 1) % times;
    if (phase === 0) send('SIGCONT');
    else if (phase === 1) send('SIGSTOP');
  }, step);
  // A page of another site gets a process of its own.
  const looking = setInterval(() => {
    renderers = renderersOf(main);
  }, 200);
  return () => {
    clearInterval(timer);
    clearInterval(looking);
    send('SIGCONT');
  };
}

/** The ids of the processes that run pages: descendants of the browser, which its zygote may have made. */
function renderersOf(main) {
  const parents = new Map();
  const isRenderer = new Set();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
      if (readFileSync(`/proc/${name}/cmdline`, 'utf8').includes('--type=renderer')) isRenderer.add(Number(name));
    } catch {
      // It has ended.
    }
  }
  const isOfBrowser = (id) => id === main || (parents.has(id) && isOfBrowser(parents.get(id)));
  return [...isRenderer].filter(isOfBrowser);
}
