/** A timer that fires this much later, in milliseconds, was held up itself: a sleeping machine, a frozen tab, a busy page. */
const HELD_UP = 1000;
/** Longest time that browsers can wait, in milliseconds. */
const LONGEST = 2 ** 31 - 1;

/** Notices that somebody says nothing for too long. What the page slept through does not count. */
export class Silence {
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Calls `onSilence` once after `limit` milliseconds, unless this or {@link Silence.stop} is called before. */
  wait(limit: number, onSilence: () => void): void {
    this.stop();
    const time = Math.min(limit, LONGEST);
    const due = Date.now() + time;
    this.#timer = setTimeout(() => {
      if (Date.now() - due > HELD_UP) this.wait(limit, onSilence);
      else onSilence();
    }, time);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
