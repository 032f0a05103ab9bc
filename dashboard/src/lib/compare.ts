// Explains in words how two runs diverge.
import type { Diff } from './types';

export interface Parting {
  /** How the runs continue after their common records. */
  then: string;
  /** The text that is shown if there are no differences. */
  none: string;
}

/**
 * Explains how two runs diverge. They can diverge although none of their tasks differ: only one
 * continues, or records are in another order. `nameOf` formats an id.
 */
export function partingOf({ a, b, parting, differences, summary }: Diff, nameOf: (id: string) => string): Parting {
  if ((summary?.differences ?? differences.length) > 0 || !parting) return { then: 'then the runs differ', none: '' };
  if (!parting.a || !parting.b) {
    const [goesOn, ends] = parting.a ? [a, b] : [b, a];
    return { then: `then only ${nameOf(goesOn.id)} continues`, none: `Up to the end of ${nameOf(ends.id)}, every task made the same calls and got the same answers.` };
  }
  const isAlike = parting.a.task === parting.b.task && parting.a.type === parting.b.type;
  if (isAlike) return { then: 'then a record differs', none: 'Every task made the same calls and got the same answers; only other details of the record differ.' };
  return { then: 'then the order differs', none: 'Every task did the same; only the order of the records differs.' };
}
