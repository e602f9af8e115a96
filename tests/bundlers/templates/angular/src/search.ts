import { Component, type OnDestroy, type OnInit, signal } from '@angular/core';
import { type Device, DprWebError, type Hit, SearchClient } from 'dpr-web';

@Component({
  selector: 'app-search',
  template: `
    <form (submit)="search($event, question.value)"><input id="question" #question /></form>
    <p id="state">{{ state() }}</p>
    <ol id="hits">
      @for (hit of hits(); track hit.id) {
        <li>{{ hit.title }}</li>
      }
    </ol>
  `,
})
export class Search implements OnInit, OnDestroy {
  readonly state = signal('');
  readonly hits = signal<Hit[]>([]);
  #client?: SearchClient;

  ngOnInit(): void {
    const wanted = new URLSearchParams(location.search);
    this.#client = SearchClient.create(wanted.get('server')!, {
      device: wanted.get('device') as Device,
      // Angular makes workers of the application's own files only.
      createWorker: () => new Worker(new URL('./dpr-web.worker', import.meta.url), { type: 'module' }),
      wasmUrl: {
        cpu: 'assets/cpu/dpr_wasm_bg.wasm',
        relaxed: 'assets/relaxed/dpr_wasm_bg.wasm',
        webgpu: 'assets/webgpu/dpr_wasm_bg.wasm',
      },
    });
    this.state.set(this.#client.state);
  }

  ngOnDestroy(): void {
    this.#client?.dispose();
  }

  async search(event: Event, question: string): Promise<void> {
    event.preventDefault();
    try {
      const { hits } = await this.#client!.search(question, { k: 5 });
      this.hits.set(hits);
      this.state.set(`answered on ${this.#client!.device}`);
    } catch (error) {
      this.state.set(`failed: ${error instanceof DprWebError ? `${error.code} ${error.message} ${error.fix}` : error}`);
    }
  }
}
