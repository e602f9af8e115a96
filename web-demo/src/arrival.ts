import { byId, make } from './dom.js';
import type { Settings } from './settings.js';

/** Milliseconds between two looks for the module. */
const EVERY = 4000;

/** Whether this page was built before the WebGPU module, as `cargo xtask demo` does it. */
const isEarly = document.querySelector('meta[name=dpr-webgpu]') !== null;

/** The settings that this page can follow: the CPU's, as long as there is nothing else. */
export function possible(settings: Settings): Settings {
  return isEarly ? { ...settings, device: 'cpu' } : settings;
}

/** Says that the WebGPU module is still coming, and then that it is there, with a button that takes it. */
export function announceWebGpu(): void {
  if (!isEarly) return;
  byId('device').querySelector<HTMLInputElement>('input[value=webgpu]')!.disabled = true;
  say('The WebGPU module is still being built. Until then, questions are encoded on the CPU.');
  const timer = setInterval(async () => {
    const state = await webGpuState();
    if (state === 'building') return;
    clearInterval(timer);
    if (state === 'failed') {
      say('The WebGPU module could not be built; the terminal says why. Questions are encoded on the CPU.');
      return;
    }
    const button = make('button', '', 'Load it');
    button.type = 'button';
    button.addEventListener('click', () => location.reload());
    say('The WebGPU module is here.', button);
  }, EVERY);
}

function say(text: string, ...more: Node[]): void {
  const notice = byId('arrival');
  notice.replaceChildren(`${text} `, ...more);
  notice.hidden = false;
}

async function webGpuState(): Promise<string> {
  try {
    const answer = await fetch(new URL('modules.json', document.baseURI), {
      credentials: 'omit',
      cache: 'no-store',
      referrerPolicy: 'no-referrer',
    });
    return ((await answer.json()) as { webgpu: string }).webgpu;
  } catch {
    // The server is away; the page says so when somebody searches.
    return 'building';
  }
}
