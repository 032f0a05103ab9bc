import { describe, expect, it } from 'vitest';
import { lineOf, progressOf } from '../src/lib/run.svelte';
import { afterEvent, merged } from '../src/lib/runs.svelte';
import type { Activity, RunSummary } from '../src/lib/types';

const run = (uuid: string, more: Partial<RunSummary> = {}): RunSummary => ({ uuid, id: uuid, function: 'f', state: 'live', started: '2026-11-17T00:00:00Z', ...more });
const event = (more: Partial<Activity>): Activity => ({ seq: 1, ts: '2026-11-17T00:00:09Z', task_id: 'a', stage: 'Completed', message: '', ghost: false, ...more });

describe('the list of runs', () => {
  it('is changed by the end of a run, and not by that of a task', () => {
    expect(afterEvent(run('a'), event({ stage: 'Failed', message: 'oh', data: { code: 'TFY0001' } }))).toMatchObject({ state: 'failed', ended: '2026-11-17T00:00:09Z', error: { code: 'TFY0001', message: 'oh' } });
    expect(afterEvent(run('a'), event({ stage: 'Cancelled' })).state).toBe('cancelled');
    expect(afterEvent(run('a'), event({ tid: 3 })).state).toBe('live');
    expect(afterEvent(run('a'), event({ stage: 'Progress' })).state).toBe('live');
  });

  it('has new runs in front, and each of them once', () => {
    const loaded = ['c', 'b', 'a', 'z', 'y'].map((uuid) => run(uuid));
    expect(merged([run('d'), run('c'), run('b')], loaded)?.map((one) => one.uuid)).toEqual(['d', 'c', 'b', 'a', 'z', 'y']);
  });

  it('is read anew where runs may be missing in between', () => {
    expect(merged([run('f'), run('e')], [run('c'), run('b')])).toBeNull();
    expect(merged([], [run('c')])).toBeNull();
  });
});

describe('what a run shows', () => {
  it('is lines of output and logs', () => {
    expect(lineOf(event({ stage: 'Output', message: 'x', tid: 2, data: { stream: 'stderr' } }))).toMatchObject({ stream: 'stderr', text: 'x', tid: 2 });
    expect(lineOf(event({ stage: 'Log', message: 'x', data: { level: 'warn' }, cut: 99 }))).toMatchObject({ stream: 'log warn', cut: 99 });
    expect(lineOf(event({ stage: 'Spawned' }))).toBeNull();
  });

  it('is progress, with an end or without', () => {
    expect(progressOf(event({ stage: 'Progress', message: 'files', data: { done: 3, total: 10 } }))).toEqual({ done: 3, total: 10, message: 'files' });
    expect(progressOf(event({ stage: 'Progress', data: { done: 3 } }))).toEqual({ done: 3, total: null, message: '' });
    expect(progressOf(event({ stage: 'Progress' }))).toBeNull();
  });
});
