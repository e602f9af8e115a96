/** What the keys of the page do, besides those in the list of passages. */
export interface Keys {
  /** Whether a slash, pressed anywhere, goes to the question. */
  hasShortcut(): boolean;
  /** Goes to the first passage. */
  focusFirst(): void;
  /** Gives up the search that is under way; returns whether there was one. */
  stop(): boolean;
}

/**
 * Listens to the keys: a slash goes to the question, an arrow down to the passages, Escape gives up and then empties.
 */
export function listenToKeys(question: HTMLInputElement, keys: Keys): void {
  question.addEventListener('keydown', (event) => {
    // Of an input method that composes a character.
    if (event.isComposing) return;
    if (event.key === 'ArrowDown') {
      event.preventDefault();
      keys.focusFirst();
    } else if (event.key === 'Escape' && keys.stop()) {
      // Without a search the browser empties the field.
      event.preventDefault();
    }
  });
  document.addEventListener('keydown', (event) => {
    if (!keys.hasShortcut()) return;
    const typing = event.target instanceof HTMLElement && event.target.matches('input[type=search], select, textarea');
    if (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    question.focus();
    question.select();
  });
}
