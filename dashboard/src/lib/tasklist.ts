// The tasks of a run, read in parts: the first few at once, the rest in pieces that leave the page its time, and from then on only what changed.
import type { Task, Tasks } from './types';

/** So many are on the screen before the rest is asked for. */
export const FIRST = 200;
/** So many come at once after that. */
export const PART = 2000;

export interface Part {
  since?: number;
  after?: number;
  limit: number;
}

export class TaskList {
  // New tasks have higher numbers, so the order of a map is that of the numbers.
  #byTid = new Map<number, Task>();
  #generation = 0;
  /** Up to which record everything is known; nothing while the first reading goes on. */
  #known: number | null = null;

  constructor(private readonly ask: (part: Part) => Promise<Tasks>) {}

  /** Reads what is not known yet, and tells all there is after each part. */
  async read(tell: (tasks: Tasks) => void): Promise<void> {
    const since = this.#known ?? undefined;
    let known: number | null = null;
    let after: number | undefined;
    for (;;) {
      const part = await this.ask({ since, after, limit: since === undefined && after === undefined ? FIRST : PART });
      if (part.generation !== this.#generation && (since !== undefined || after !== undefined)) {
        // The run has begun anew: numbers mean something else now.
        this.#forget();
        return this.read(tell);
      }
      this.#generation = part.generation;
      // What changes while the rest is read is asked for the next time.
      known ??= part.last;
      for (const task of part.tasks) this.#byTid.set(task.tid, task);
      tell({ ...part, tasks: [...this.#byTid.values()] });
      if (part.next === null || part.next === undefined) break;
      after = part.next;
    }
    this.#known = known;
  }

  #forget() {
    this.#byTid.clear();
    this.#known = null;
    this.#generation = 0;
  }
}
