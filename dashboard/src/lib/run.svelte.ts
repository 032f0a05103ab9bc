// The view of one run: its summary, its tasks, and the events it shows. All lists are bounded.
import { api, ApiError, problemOf } from './api';
import { Live, type LinkState } from './live';
import { Pace } from './pace';
import { changeOf } from './records';
import { TaskList } from './tasklist';
import { isUnfinished } from './states';
import type { Activity, ChangedAnswer, Doubt, Problem, RunDetail, Tasks } from './types';

export interface Progress {
  done: number;
  total: number | null;
  message: string;
}

/** A line that a run shows. */
export interface Shown {
  seq: number;
  ts: string;
  tid: number | undefined;
  stream: string;
  text: string;
  isGhost: boolean;
  cut: number;
}

export const MAX_LINES = 5000;
const MAX_PROGRESS = 2000;
const SHOWN_STAGES = new Set(['Log', 'Output', 'WaitingForLLM', 'PreviewingPatch', 'CommittingPatch', 'Idle']);

/** Converts an event to a line, if it is shown as one. */
export function lineOf(event: Activity): Shown | null {
  if (!SHOWN_STAGES.has(event.stage)) return null;
  const data = event.data ?? {};
  const stream = event.stage === 'Output' ? String(data.stream ?? 'output') : event.stage === 'Log' ? `log ${String(data.level ?? 'info')}` : event.stage;
  return { seq: event.seq, ts: event.ts, tid: event.tid, stream, text: event.message, isGhost: event.ghost, cut: event.cut ?? 0 };
}

export function progressOf(event: Activity): Progress | null {
  if (event.stage !== 'Progress' || typeof event.data?.done !== 'number') return null;
  return { done: event.data.done, total: typeof event.data.total === 'number' ? event.data.total : null, message: event.message };
}

export class RunView {
  detail = $state.raw<RunDetail | null>(null);
  input = $state.raw<{ value: unknown } | null>(null);
  tasks = $state.raw<Tasks | null>(null);
  /** The run's steps in doubt, which need a decision. */
  doubts = $state.raw<Doubt[]>([]);
  change = $state.raw<ChangedAnswer | null | undefined>(undefined);
  problem = $state.raw<Problem | null>(null);
  lines = $state.raw<Shown[]>([]);
  /** The number of lines that were dropped. */
  gone = $state(0);
  lost = $state(0);
  progress = $state.raw<ReadonlyMap<number, Progress>>(new Map());
  link = $state<LinkState>('connecting');
  /** Increases with every event, after which other data about the run is outdated. */
  version = $state(0);
  #live: Live | null = null;
  #list = new TaskList((part) => api.tasks(this.name, part));
  #reader: Pace;
  #isStopped = false;

  constructor(readonly name: string) {
    this.#reader = new Pace(() => this.#read(), 250);
    this.#reader.poke();
  }

  stop() {
    this.#isStopped = true;
    this.#live?.stop();
    this.#reader.stop();
  }

  again() {
    this.#reader.poke();
  }

  async #read() {
    // Loading the tasks of a long run takes a moment; its state and its error don't wait for that.
    const tasks = this.#list
      .read((told) => {
        if (!this.#isStopped) this.tasks = told;
      })
      .then(
        () => null,
        (error: unknown) => ({ error }),
      );
    try {
      const detail = await api.run(this.name);
      if (this.#isStopped) return;
      this.detail = detail;
      this.problem = null;
      this.#live ??= new Live(`/runs/${encodeURIComponent(detail.uuid)}/events`, { events: (batch) => this.#take(batch), state: (state) => (this.link = state), gap: (why) => this.#gap(why) }, { history: true });
      await Promise.all([this.#readInput(detail.uuid), this.#readDoubts(detail), this.#readChange(detail)]);
      const failed = await tasks;
      if (this.#isStopped) return;
      if (failed) throw failed.error;
      this.version += 1;
    } catch (error) {
      if (this.#isStopped) return;
      this.problem = problemOf(error);
      if (error instanceof ApiError && error.status === 0) setTimeout(() => this.#reader.poke(), 2000);
    }
  }

  async #readInput(run: string) {
    if (this.input) return;
    const [first] = (await api.records(run, { from: 1, limit: 1 })).records;
    if (first && 'input' in first) this.input = { value: first.input };
  }

  /** The answer that replaces the parent's in this fork. */
  async #readChange({ uuid, parent }: RunDetail) {
    if (!parent || this.change !== undefined) return;
    const [record] = (await api.records(uuid, { from: parent.at, limit: 1 })).records;
    this.change = (record && changeOf(record)) ?? null;
  }

  async #readDoubts({ uuid, state }: RunDetail) {
    // A finished run has no doubts.
    const all = isUnfinished(state) ? await api.doubts() : [];
    if (!this.#isStopped) this.doubts = all.filter((one) => one.run === uuid);
  }

  #gap(why: { restarted: true } | { lost: number }) {
    if ('restarted' in why) {
      this.lines = [];
      this.gone = 0;
      this.lost = 0;
    } else {
      this.lost += why.lost;
    }
    this.#reader.poke();
  }

  #take(batch: Activity[]) {
    const lines: Shown[] = [];
    const progress = new Map(this.progress);
    let isOnlyShown = true;
    for (const event of batch) {
      const line = lineOf(event);
      const step = progressOf(event);
      if (line) lines.push(line);
      else if (step && event.tid !== undefined) {
        progress.delete(event.tid);
        progress.set(event.tid, step);
      } else isOnlyShown = false;
    }
    for (const tid of progress.keys()) {
      if (progress.size <= MAX_PROGRESS) break;
      progress.delete(tid);
    }
    this.progress = progress;
    if (lines.length > 0) {
      const all = [...this.lines, ...lines];
      this.gone += Math.max(0, all.length - MAX_LINES);
      this.lines = all.length > MAX_LINES ? all.slice(-MAX_LINES) : all;
    }
    if (!isOnlyShown) this.#reader.poke();
  }
}
