// The figures of the daemon over the last minutes. Of earlier readings, only sums are kept.
import { api, problemOf } from './api';
import { by, parse, ratePerSecond, sum, type Reading } from './metrics';
import type { Doubt, Problem, Status, StuckTasks } from './types';

export const EVERY_MS = 2000;
export const MAX_POINTS = 90;

export interface Point {
  at: number;
  values: Record<string, number>;
}

const COUNTERS = ['tiffany_turns_total', 'tiffany_events_total', 'tiffany_events_lost_total', 'tiffany_loop_wait_seconds_total', 'tiffany_commit_seconds_count', 'tiffany_commit_seconds_sum', 'tiffany_commit_records_sum', 'tiffany_commit_bytes_sum', 'tiffany_runs_started_total', 'tiffany_runs_ended_total', 'process_cpu_seconds_total'];

/** The sums that are drawn over time. */
export function pointOf(reading: Reading, at: number): Point {
  const values: Record<string, number> = {};
  for (const name of COUNTERS) values[name] = sum(reading, name);
  for (const { key, value } of by(reading, 'tiffany_calls_total', 'call')) values[`call ${key}`] = value;
  for (const { key, value } of by(reading, 'tiffany_effect_attempts_total', 'step')) values[`step ${key}`] = value;
  for (const { key, value } of by(reading, 'tiffany_effect_seconds_sum', 'step')) values[`time ${key}`] = value;
  return { at, values };
}

/** Returns the growth of a sum per second, between each point and the one before. */
export function rates(points: readonly Point[], name: string): number[] {
  return points.slice(1).map((point, index) => ratePerSecond(points[index]!.values[name] ?? 0, point.values[name] ?? 0, (point.at - points[index]!.at) / 1000));
}

export class SystemView {
  reading = $state.raw<Reading | null>(null);
  /** A reading about a minute old, for quantiles since then. */
  before = $state.raw<Reading | null>(null);
  points = $state.raw<Point[]>([]);
  status = $state.raw<Status | null>(null);
  doubts = $state.raw<Doubt[]>([]);
  stuck = $state.raw<StuckTasks>({ stuck: [], total: 0, looked_at: 0, left_out: 0, turns: [] });
  problem = $state.raw<Problem | null>(null);
  /** The turn that currently blocks everything else. */
  readonly kept = $derived(this.stuck.turns.find((turn) => !turn.is_over) ?? null);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #older: { at: number; reading: Reading }[] = [];
  #isStopped = false;

  /** `waits` returns how many seconds a wait may take; empty for the daemon's defaults. */
  constructor(private readonly waits: () => string) {
    void this.#ask();
  }

  stop() {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  async again() {
    try {
      const stuck = await api.stuck(this.waits());
      if (this.#isStopped) return;
      this.stuck = stuck;
      this.problem = null;
      // While a task keeps its turn, no other request is answered.
      if (this.kept) return;
      const [text, status, doubts] = await Promise.all([api.metrics(), api.status(), api.doubts()]);
      if (this.#isStopped) return;
      const now = performance.now();
      const reading = parse(text);
      this.points = [...this.points, pointOf(reading, now)].slice(-MAX_POINTS);
      if (now - (this.#older.at(-1)?.at ?? -Infinity) > 20_000) this.#older = [...this.#older, { at: now, reading }].slice(-4);
      this.before = this.#older[0] && this.#older[0].reading !== reading ? this.#older[0].reading : null;
      this.reading = reading;
      this.status = status;
      this.doubts = doubts;
    } catch (error) {
      if (!this.#isStopped) this.problem = problemOf(error);
    }
  }

  async #ask() {
    if (!document.hidden) await this.again();
    if (!this.#isStopped) this.#timer = setTimeout(() => void this.#ask(), EVERY_MS);
  }
}
