import { describe, expect, it } from 'vitest';
import { partingOf } from '../src/lib/compare';
import type { Diff, DiffSide, Difference } from '../src/lib/types';

const side = (record: number, task = 1, type = 'EffectResult'): DiffSide => ({ at: null, record, task, text: '', type });
const run = (id: string) => ({ run: id, id, function: 'dinner', records: 10, is_over: true });
const diff = (a: DiffSide | null, b: DiffSide | null, differences: Difference[] = []): Diff => ({
  a: run('left'),
  b: run('right'),
  parting: { a, b, changes: [] },
  same_records: 10,
  differences,
  summary: { same: false, differences: differences.length, tasks: 2, differing_tasks: 0, told: differences.length },
});
const words = (one: Diff) => partingOf(one, (id) => `<${id}>`);

describe('where runs differ', () => {
  it('says so when tasks differ', () => expect(words(diff(side(11), side(11), [{} as Difference]))).toEqual({ then: 'then the runs differ', none: '' }));
  it('says which one continues', () => {
    expect(words(diff(null, side(11)))).toEqual({ then: 'then only <right> continues', none: 'Up to the end of <left>, every task made the same calls and got the same answers.' });
    expect(words(diff(side(11), null)).then).toBe('then only <left> continues');
  });
  it('says that the order differs', () => {
    expect(words(diff(side(11, 2), side(11, 3))).then).toBe('then the order differs');
    expect(words(diff(side(11), side(11, 1, 'TaskYield'))).then).toBe('then the order differs');
  });
  it('says that a record differs', () => expect(words(diff(side(11), side(11))).then).toBe('then a record differs'));
});
