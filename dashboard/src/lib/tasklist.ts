// The tasks of a run, loaded in parts: a few at once, the rest in pieces that keep the page
// responsive, and afterwards only changes.
import type { Task, Tasks } from './types';

/** The number of tasks that are shown before the rest is requested. */
export const FIRST = 200;
/** The number of tasks in each later part. */
export const PART = 2000;

export interface Part {
  since?: number;
  after?: number;
  limit: number;
}

export class TaskList {
  // New tasks have higher numbers, so the map stays sorted by number.
  #byTid = new Map<number, Task>();
  #generation = 0;
  /** The record up to which everything is known; null during the first reading. */
  #known: number | null = null;

  constructor(private readonly ask: (part: Part) => Promise<Tasks>) {}

  /** Loads what is not known yet, and reports all tasks after each part. */
  async read(tell: (tasks: Tasks) => void): Promise<void> {
    const since = this.#known ?? undefined;
    let known: number | null = null;
    let after: number | undefined;
    for (;;) {
      const part = await this.ask({ since, after, limit: since === undefined && after === undefined ? FIRST : PART });
      if (part.generation !== this.#generation && (since !== undefined || after !== undefined)) {
        // The run has started a new generation, in which record numbers have another meaning.
        this.#forget();
        return this.read(tell);
      }
      this.#generation = part.generation;
      // Changes during the rest of the reading are requested the next time.
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
