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

describe('where runs part', () => {
  it('says so when tasks differ', () => expect(words(diff(side(11), side(11), [{} as Difference]))).toEqual({ then: 'then they part', none: '' }));
  it('says which one goes on', () => {
    expect(words(diff(null, side(11)))).toEqual({ then: 'then only <right> goes on', none: 'As far as <left> goes, every task asked for the same and got the same.' });
    expect(words(diff(side(11), null)).then).toBe('then only <left> goes on');
  });
  it('says that the order differs', () => {
    expect(words(diff(side(11, 2), side(11, 3))).then).toBe('then the order differs');
    expect(words(diff(side(11), side(11, 1, 'TaskYield'))).then).toBe('then the order differs');
  });
  it('says that a record differs', () => expect(words(diff(side(11), side(11))).then).toBe('then they are written differently'));
});
