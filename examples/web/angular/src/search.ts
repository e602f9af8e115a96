import { Component, computed, DestroyRef, inject, signal } from '@angular/core';
import { typeahead, type TypeaheadState } from 'dpr-web';
import { SEARCH_CLIENT } from './client';

@Component({
  selector: 'app-search',
  template: `
    <form role="search" (submit)="submit($event)">
      <label>Question <input #field type="search" (focus)="client.preload()" (input)="live.input(field.value)" /></label>
      @if (state().status === 'failed') {
        <p role="alert">{{ state().error }}</p>
      }
      <ol [attr.aria-busy]="state().status !== 'done'">
        @for (hit of hits(); track hit.id) {
          <li dir="auto">
            <strong>{{ hit.title }}</strong> {{ hit.text }}
          </li>
        }
      </ol>
    </form>
  `,
})
export class Search {
  readonly client = inject(SEARCH_CLIENT);
  readonly live = typeahead(this.client, { k: 5, debounce: 200 });
  readonly state = signal<TypeaheadState>(this.live.state);
  readonly hits = computed(() => this.state().result?.hits ?? []);

  constructor() {
    this.live.subscribe((state) => this.state.set(state));
    inject(DestroyRef).onDestroy(() => this.live.dispose());
  }

  submit(event: Event): void {
    event.preventDefault();
    this.live.flush();
  }
}
