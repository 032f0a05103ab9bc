// Lays out the tasks of a graph: layers from left to right by parent. Large graphs are drawn as
// groups.
import { forest } from './tasks';
import type { Task } from './types';

export interface Node {
  id: string;
  /** The tasks of the node: one, or those of a group. */
  tasks: Task[];
  label: string;
  state: string;
  x: number;
  y: number;
  level: number;
  parent: string | null;
}

export interface Edge {
  from: string;
  to: string;
  kind: 'spawned' | 'waits' | 'failure';
}

export interface Graph {
  nodes: Node[];
  edges: Edge[];
  width: number;
  height: number;
  /** The number of tasks that are drawn only as part of a group. */
  collapsed: number;
}

export const NODE = { width: 196, height: 46, gapX: 72, gapY: 14 };

interface Group {
  id: string;
  tasks: Task[];
  parent: string | null;
}

/**
 * Groups tasks that look the same, until there are at most `most` nodes. The tasks in `apart` stay
 * separate.
 */
function groups(tasks: readonly Task[], most: number, apart: ReadonlySet<number>): Group[] {
  const { roots, children } = forest(tasks);
  if (tasks.length <= most) return tasks.map((task) => ({ id: `t${task.tid}`, tasks: [task], parent: parentOf(task, roots) }));
  const found: Group[] = [];
  const queue: { members: Task[]; parent: string | null }[] = [{ members: roots, parent: null }];
  while (queue.length > 0) {
    const { members, parent } = queue.shift()!;
    const alike = new Map<string, Task[]>();
    for (const task of members) {
      const key = apart.has(task.tid) ? `t${task.tid}` : `${task.name ?? task.spawned_at ?? ''}\u0000${task.state}`;
      const there = alike.get(key);
      if (there) there.push(task);
      else alike.set(key, [task]);
    }
    // If even groups are too many, the smallest are merged into one.
    const room = Math.max(4, Math.floor((most - found.length) / (queue.length + 1)));
    const sorted = [...alike.values()].sort((a, b) => Number(apart.has(b[0]!.tid)) - Number(apart.has(a[0]!.tid)) || b.length - a.length);
    const kept = sorted.length > room ? [...sorted.slice(0, room - 1), sorted.slice(room - 1).flat()] : sorted;
    for (const group of kept) {
      const id = group.length === 1 ? `t${group[0]!.tid}` : `g${group[0]!.tid}x${group.length}`;
      found.push({ id, tasks: group, parent });
      const below = group.flatMap((task) => children.get(task.tid) ?? []);
      if (below.length > 0) queue.push({ members: below, parent: id });
    }
  }
  return found;
}

function parentOf(task: Task, roots: readonly Task[]): string | null {
  return roots.includes(task) ? null : `t${task.parent}`;
}

function labelOf(tasks: readonly Task[], root: string): string {
  const [first] = tasks;
  if (tasks.length === 1) return first!.name ?? (first!.parent === null ? root : `task ${first!.tid}`);
  const names = new Set(tasks.map((task) => task.name ?? 'tasks'));
  return `${tasks.length} × ${names.size === 1 ? [...names][0] : 'various'}`;
}

function stateOf(tasks: readonly Task[]): string {
  const states = new Set(tasks.map((task) => task.state));
  if (states.size === 1) return [...states][0]!;
  for (const state of ['failed', 'waiting', 'ready', 'new'] as const) if (states.has(state)) return state;
  return 'completed';
}

/** `root` is the name of a root task without one. */
export function graphOf(tasks: readonly Task[], root: string, most = 300): Graph {
  const onFailure = new Set(tasks.flatMap((task) => (task.error ? [task.tid, task.error.origin ?? task.tid, ...(task.error.hops ?? [])] : [])));
  const apart = onFailure.size <= most / 3 ? onFailure : new Set<number>();
  const found = groups(tasks, most, apart);
  const nodes = placed(found, root);
  const nodeOf = new Map(found.flatMap((group) => group.tasks.map((task) => [task.tid, group.id] as const)));
  const largest = Math.max(0, ...nodes.map((node) => node.y));
  const deepest = Math.max(0, ...nodes.map((node) => node.x));
  return {
    nodes,
    edges: edgesOf(tasks, nodes, nodeOf),
    width: deepest + NODE.width,
    height: largest + NODE.height,
    collapsed: found.reduce((sum, group) => sum + (group.tasks.length > 1 ? group.tasks.length : 0), 0),
  };
}

/** Places leaves below each other, and parents in the middle of their children. */
function placed(found: readonly Group[], root: string): Node[] {
  const below = new Map<string | null, Group[]>();
  for (const group of found) {
    const there = below.get(group.parent);
    if (there) there.push(group);
    else below.set(group.parent, [group]);
  }
  const nodes: Node[] = [];
  let nextY = 0;
  const place = (group: Group, level: number): number => {
    const inner = below.get(group.id) ?? [];
    const ys = inner.map((child) => place(child, level + 1));
    const y = ys.length > 0 ? (ys[0]! + ys.at(-1)!) / 2 : nextY;
    if (ys.length === 0) nextY += NODE.height + NODE.gapY;
    nodes.push({ id: group.id, tasks: group.tasks, label: labelOf(group.tasks, root), state: stateOf(group.tasks), x: (level - 1) * (NODE.width + NODE.gapX), y, level, parent: group.parent });
    return y;
  };
  for (const root of below.get(null) ?? []) place(root, 1);
  return nodes.sort((a, b) => a.y - b.y || a.x - b.x);
}

const OVER = new Set<string>(['completed', 'failed', 'cancelled']);

function edgesOf(tasks: readonly Task[], nodes: readonly Node[], nodeOf: ReadonlyMap<number, string>): Edge[] {
  const edges = new Map<string, Edge>();
  const add = (from: string | undefined, to: string | undefined, kind: Edge['kind']) => {
    if (from && to && from !== to) edges.set(`${kind} ${from} ${to}`, { from, to, kind });
  };
  for (const node of nodes) add(node.parent ?? undefined, node.id, 'spawned');
  // A wait for a finished task has ended.
  const open = new Set(tasks.filter((task) => !OVER.has(task.state)).map((task) => task.tid));
  for (const task of tasks) {
    for (const wait of task.waits) for (const on of wait.on) if (open.has(on)) add(nodeOf.get(task.tid), nodeOf.get(on), 'waits');
    if (!task.error) continue;
    const way = [task.error.origin ?? task.tid, ...(task.error.hops ?? []), task.tid];
    for (let hop = 1; hop < way.length; hop += 1) add(nodeOf.get(way[hop - 1]!), nodeOf.get(way[hop]!), 'failure');
  }
  return [...edges.values()];
}
