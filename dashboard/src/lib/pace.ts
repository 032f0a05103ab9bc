// Repeats a request when something has changed: at once after a quiet time, and never twice at the
// same time.

/**
 * Returns how long to wait after an answer, from how long it took: slow answers are requested less
 * often.
 */
export function restAfter(tookMs: number, leastMs: number): number {
  return Math.max(leastMs, Math.min(10_000, tookMs * 4));
}

export class Pace {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isAsking = false;
  #isWanted = false;
  #notBefore = 0;
  #isStopped = false;

  constructor(
    private readonly what: () => Promise<void>,
    private readonly leastMs = 300,
  ) {}

  /** Reports a change. */
  poke() {
    if (this.#isStopped) return;
    this.#isWanted = true;
    if (this.#isAsking || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => void this.#ask(), Math.max(0, this.#notBefore - performance.now()));
  }

  stop() {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  async #ask() {
    this.#timer = undefined;
    this.#isWanted = false;
    this.#isAsking = true;
    const begin = performance.now();
    try {
      await this.what();
    } finally {
      this.#isAsking = false;
      const end = performance.now();
      this.#notBefore = end + restAfter(end - begin, this.leastMs);
      if (this.#isWanted) this.poke();
    }
  }
}
