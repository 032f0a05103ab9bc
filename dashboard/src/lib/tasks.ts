// The tasks of a run as a tree, and the path of a failure through it.
import type { RunSummary, Task } from './types';

export interface TreeRow {
  task: Task;
  level: number;
  children: number;
  isOpen: boolean;
  /** The number of tasks below this one, over all levels, and how many of them failed. */
  under: number;
  failedUnder: number;
}

export interface Forest {
  roots: Task[];
  children: Map<number, Task[]>;
  byTid: Map<number, Task>;
}

export function forest(tasks: readonly Task[]): Forest {
  const byTid = new Map(tasks.map((task) => [task.tid, task]));
  const children = new Map<number, Task[]>();
  const roots: Task[] = [];
  for (const task of tasks) {
    if (task.parent === null || !byTid.has(task.parent)) roots.push(task);
    else if (children.has(task.parent)) children.get(task.parent)!.push(task);
    else children.set(task.parent, [task]);
  }
  return { roots, children, byTid };
}

/**
 * Returns the visible rows: the children of open tasks. All children of a task are rows, however
 * many.
 */
export function treeRows(all: Forest, isOpen: (task: Task, level: number) => boolean): TreeRow[] {
  const under = new Map<number, { all: number; failed: number }>();
  // Children are spawned after their parent, so in reverse order each task's sums are complete
  // before they are added to its parent.
  const order = [...all.byTid.values()].sort((a, b) => b.tid - a.tid);
  for (const task of order) {
    const mine = under.get(task.tid) ?? { all: 0, failed: 0 };
    if (task.parent === null || task.parent >= task.tid) continue;
    const parents = under.get(task.parent) ?? { all: 0, failed: 0 };
    parents.all += mine.all + 1;
    parents.failed += mine.failed + (task.state === 'failed' ? 1 : 0);
    under.set(task.parent, parents);
  }
  const rows: TreeRow[] = [];
  const stack = all.roots.map((task) => ({ task, level: 1 })).reverse();
  while (stack.length > 0) {
    const { task, level } = stack.pop()!;
    const children = all.children.get(task.tid) ?? [];
    const open = children.length > 0 && isOpen(task, level);
    const sums = under.get(task.tid) ?? { all: 0, failed: 0 };
    rows.push({ task, level, children: children.length, isOpen: open, under: sums.all, failedUnder: sums.failed });
    if (open) for (let index = children.length - 1; index >= 0; index -= 1) stack.push({ task: children[index]!, level: level + 1 });
  }
  return rows;
}

/** Formats a task as `task 4`, or `sleeper (task 4)`. */
export function called(task: Pick<Task, 'tid' | 'name'>): string {
  return task.name ? `${task.name} (task ${task.tid})` : `task ${task.tid}`;
}

export interface Failure {
  code: string;
  message: string;
  /** The tasks that the failure passed through, from its origin to the root. */
  chain: Task[];
  /** The line of the failed call. */
  at: string | null;
  /** The line of the program's own code where the error was raised, and the traceback. */
  raisedAt: string | null;
  trace: string[];
  /** The task where the failure began. */
  origin: number | null;
}

/** Explains why a run failed: the run's own error, and details from its tasks. */
export function failureOf(run: RunSummary, tasks: readonly Task[]): Failure | null {
  if (!run.error && run.state !== 'failed') return null;
  const { byTid } = forest(tasks);
  const root = tasks.find((task) => task.parent === null);
  const failed = root?.error ? root : tasks.find((task) => task.error);
  const error = failed?.error ?? null;
  const chain: Task[] = [];
  const tids = error ? [error.origin ?? failed!.tid, ...(error.hops ?? []), failed!.tid] : [];
  for (const tid of tids) {
    const task = byTid.get(tid);
    if (task && !chain.includes(task)) chain.push(task);
  }
  return {
    code: run.error?.code ?? error?.code ?? '',
    message: run.error?.message ?? error?.message ?? 'no reason is recorded',
    chain,
    at: chain[0]?.error?.at ?? error?.at ?? null,
    raisedAt: chain[0]?.error?.raised_at ?? error?.raised_at ?? null,
    trace: chain[0]?.error?.trace ?? error?.trace ?? [],
    origin: error ? (error.origin ?? failed!.tid) : null,
  };
}
