// The visible list of runs: loaded pages, updated by events.
import { api, ApiError, problemOf, type RunFilter } from './api';
import { Pace } from './pace';
import type { Activity, Problem, RunState, RunSummary } from './types';

export const PAGE = 200;
/**
 * The most runs in a page. Pages grow while scrolling, so that the end of a long list is not
 * hundreds of requests away.
 */
const LARGEST_PAGE = 5000;
/** The states that are counted, those that need attention first. */
export const STATES: RunState[] = ['failed', 'damaged', 'ending', 'held', 'paused', 'live', 'completed', 'cancelled'];

const ENDS: Record<string, RunState> = { Completed: 'completed', Failed: 'failed', Cancelled: 'cancelled' };

/** Applies an event to a run. */
export function afterEvent(run: RunSummary, event: Activity): RunSummary {
  const state = event.tid === undefined ? ENDS[event.stage] : undefined;
  if (!state || run.state === state) return run;
  const code = typeof event.data?.code === 'string' ? event.data.code : '';
  return { ...run, state, ended: event.ts, waits: [], tasks: 0, ...(state === 'failed' ? { error: { code, message: event.message } } : {}) };
}

/**
 * Replaces the head of the list in what was loaded; null if runs between the two may be missing.
 */
export function merged(head: RunSummary[], loaded: RunSummary[]): RunSummary[] | null {
  const there = new Set(head.map((run) => run.uuid));
  const last = head.at(-1);
  const cut = last ? loaded.findIndex((run) => run.uuid === last.uuid) : -1;
  return cut < 0 ? null : [...head, ...loaded.slice(cut + 1).filter((run) => !there.has(run.uuid))];
}

export class RunList {
  rows = $state.raw<RunSummary[]>([]);
  total = $state(0);
  counts = $state.raw<Partial<Record<RunState, number>>>({});
  problem = $state.raw<Problem | null>(null);
  isFirst = $state(true);
  #filter: RunFilter = {};
  #next: string | null = null;
  #isLoading = false;
  #epoch = 0;
  #head = new Pace(() => this.#readHead(), 400);
  #counter = new Pace(() => this.#readCounts(), 700);

  show(filter: RunFilter) {
    this.#filter = filter;
    this.#epoch += 1;
    this.#next = null;
    this.isFirst = true;
    this.again();
  }

  /** Reports that the loaded runs may be outdated. */
  again() {
    this.#head.poke();
    this.#counter.poke();
  }

  stop() {
    this.#epoch += 1;
    this.#head.stop();
    this.#counter.stop();
  }

  async #readHead(): Promise<void> {
    const epoch = this.#epoch;
    try {
      const page = await api.runs({ ...this.#filter, limit: PAGE });
      if (epoch !== this.#epoch) return this.#head.poke();
      const all = this.isFirst || this.rows.length <= PAGE || !page.next ? null : merged(page.runs, this.rows);
      if (!all) this.#next = page.next ?? null;
      this.rows = all ?? page.runs;
      this.total = page.total;
      this.problem = null;
      this.isFirst = false;
    } catch (error) {
      if (epoch === this.#epoch) this.problem = problemOf(error);
      if (error instanceof ApiError && error.status === 0) setTimeout(() => this.#head.poke(), 2000);
    }
  }

  /** Loads more if the end of the loaded runs comes near. */
  async more(upTo: number) {
    if (this.#isLoading || !this.#next || upTo < this.rows.length - 40) return;
    this.#isLoading = true;
    const epoch = this.#epoch;
    try {
      const page = await api.runs({ ...this.#filter, limit: Math.min(LARGEST_PAGE, Math.max(PAGE, this.rows.length)), after: this.#next });
      if (epoch !== this.#epoch) return;
      const there = new Set(this.rows.map((run) => run.uuid));
      this.rows = [...this.rows, ...page.runs.filter((run) => !there.has(run.uuid))];
      this.#next = page.next ?? null;
      this.total = page.total;
    } catch (error) {
      if (epoch === this.#epoch) this.problem = problemOf(error);
    } finally {
      this.#isLoading = false;
    }
  }

  async #readCounts() {
    const { function: name, text, since, before } = this.#filter;
    const counts = await Promise.all(
      STATES.map(async (state) => {
        try {
          return (await api.runs({ function: name, text, since, before, state, limit: 1 })).total;
        } catch {
          return undefined;
        }
      }),
    );
    // A count that is missing in the answer keeps its value.
    this.counts = Object.fromEntries(STATES.map((state, index) => [state, counts[index] ?? this.counts[state]]));
  }

  /** Applies events to rows at once; data that events don't contain is requested afterwards. */
  take(batch: Activity[]) {
    const ends = new Map<string, Activity>();
    let isOther = false;
    for (const event of batch) {
      if (event.tid === undefined && ENDS[event.stage]) ends.set(event.task_id, event);
      isOther ||= event.tid === undefined || event.stage === 'AwaitingUserApproval';
    }
    if (ends.size > 0) {
      this.rows = this.rows.map((run) => {
        const event = ends.get(run.uuid);
        return event ? afterEvent(run, event) : run;
      });
    }
    this.#head.poke();
    if (isOther) this.#counter.poke();
  }
}
