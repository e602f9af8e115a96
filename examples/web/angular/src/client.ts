import { InjectionToken } from '@angular/core';
import { SearchClient } from 'dpr-web';

/** One client for all components. It loads the encoder when somebody wants to search, and not when a server renders. */
export const SEARCH_CLIENT = new InjectionToken<SearchClient>('search client', {
  providedIn: 'root',
  factory: () =>
    SearchClient.create('/', {
      createWorker: () => new Worker(new URL('./dpr-web.worker', import.meta.url), { type: 'module' }),
      wasmUrl: {
        cpu: 'assets/cpu/dpr_wasm_bg.wasm',
        relaxed: 'assets/relaxed/dpr_wasm_bg.wasm',
        webgpu: 'assets/webgpu/dpr_wasm_bg.wasm',
      },
    }),
});
