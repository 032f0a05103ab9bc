import { describe, expect, it } from 'vitest';
import { graphOf } from '../src/lib/layout';
import { failureOf, forest, treeRows } from '../src/lib/tasks';
import type { RunSummary, Task } from '../src/lib/types';

function task(tid: number, parent: number | null, more: Partial<Task> = {}): Task {
  return { tid, parent, name: null, state: 'completed', begin: 0, end: 1, spawned_at: 'a.rs:1', waits: [], error: null, ...more };
}
const error = (origin: number, hops: number[] = []) => ({ code: 'TFY0001', message: 'burnt', origin, hops, at: 'a.rs:9' });
const run: RunSummary = { uuid: 'u', id: 'r', function: 'f', state: 'failed', started: '2026-11-17T00:00:00Z', error: { code: 'TFY0001', message: 'burnt' } };
const family = [
  task(1, null, { state: 'failed', error: error(4, [3, 1]) }),
  task(2, 1, { name: 'soup' }),
  task(3, 1, { name: 'roast', state: 'failed', error: error(4, [3]) }),
  task(4, 3, { name: 'sauce', state: 'failed', error: error(4) }),
];

describe('the tree of tasks', () => {
  it('shows children under what is open', () => {
    const rows = treeRows(forest(family), () => true);
    expect(rows.map((row) => [row.task.tid, row.level])).toEqual([[1, 1], [2, 2], [3, 2], [4, 3]]);
    const closed = treeRows(forest(family), () => false);
    expect(closed.map((row) => [row.task.tid, row.children, row.under, row.failedUnder])).toEqual([[1, 2, 3, 2]]);
  });

  it('shows tasks whose parent is not there', () => {
    expect(treeRows(forest([task(7, 3)]), () => true).map((row) => row.task.tid)).toEqual([7]);
  });

  it('takes 10,000 tasks in no time', () => {
    const many = [task(1, null), ...Array.from({ length: 9999 }, (_, index) => task(index + 2, 1))];
    const begin = performance.now();
    expect(treeRows(forest(many), () => true)).toHaveLength(10_000);
    expect(performance.now() - begin).toBeLessThan(500);
  });
});

describe('a failure', () => {
  it('is told from where it began', () => {
    const failure = failureOf(run, family)!;
    expect(failure.chain.map((one) => one.tid)).toEqual([4, 3, 1]);
    expect([failure.code, failure.message, failure.at, failure.origin]).toEqual(['TFY0001', 'burnt', 'a.rs:9', 4]);
  });

  it('says where it was raised, and the way there', () => {
    const raised = { ...error(1), raised_at: 'billing.py:18', trace: ['File "billing.py", line 18, in parse'] };
    expect(failureOf(run, [task(1, null, { error: raised })])).toMatchObject({ at: 'a.rs:9', raisedAt: 'billing.py:18', trace: raised.trace });
    expect(failureOf(run, family)).toMatchObject({ raisedAt: null, trace: [] });
  });

  it('is told without tasks too', () => {
    expect(failureOf(run, [])).toMatchObject({ message: 'burnt', chain: [], origin: null });
    expect(failureOf({ ...run, state: 'live', error: undefined }, [])).toBeNull();
  });
});

describe('the graph of tasks', () => {
  it('has layers, and the way of the failure', () => {
    const graph = graphOf(family, 'banquet');
    const x = Object.fromEntries(graph.nodes.map((node) => [node.id, node.x]));
    expect(x.t1! < x.t2! && x.t2 === x.t3 && x.t3! < x.t4!).toBe(true);
    expect(graph.nodes.find((node) => node.id === 't1')!.label).toBe('banquet');
    expect(graph.edges.filter((edge) => edge.kind === 'failure').map((edge) => `${edge.from} ${edge.to}`)).toEqual(['t4 t3', 't3 t1']);
    expect(graph.collapsed).toBe(0);
  });

  it('never puts two nodes on each other', () => {
    const graph = graphOf([...family, task(5, 2), task(6, 2), task(7, 4)], 'f');
    expect(new Set(graph.nodes.map((node) => `${node.x} ${node.y}`)).size).toBe(graph.nodes.length);
  });

  it('shows who waits for whom', () => {
    const waits = [{ record: 1, call: 'gather', what: '', since: 0, at: null, on: [2, 3] }];
    const told = (state: 'waiting' | 'completed') => graphOf([task(1, null, { state: 'waiting', waits }), task(2, 1, { state: 'waiting' }), task(3, 1, { state })], 'f').edges.filter((edge) => edge.kind === 'waits').map((edge) => edge.to);
    expect(told('waiting')).toEqual(['t2', 't3']);
    // Nobody waits any more for who is over.
    expect(told('completed')).toEqual(['t2']);
  });

  it('draws very many as groups, says so, and leaves a failure alone', () => {
    const failed = task(501, 1, { state: 'failed', error: error(501) });
    const many = [task(1, null), ...Array.from({ length: 10_000 }, (_, index) => (index === 499 ? failed : task(index + 2, 1, { name: index % 2 ? 'guest' : 'child' })))];
    const begin = performance.now();
    const graph = graphOf(many, 'feast');
    expect(performance.now() - begin).toBeLessThan(1000);
    expect(graph.nodes.length).toBeLessThanOrEqual(300);
    expect(graph.nodes.map((node) => node.label)).toEqual(expect.arrayContaining(['feast', '4999 × guest', '5000 × child', 'task 501']));
    expect(graph.collapsed).toBe(9999);
  });
});
