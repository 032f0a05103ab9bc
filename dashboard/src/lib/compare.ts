// What it means that two runs part.
import type { Diff } from './types';

export interface Parting {
  /** How it goes on after the records that are the same. */
  then: string;
  /** What stands in place of the differences, where there are none. */
  none: string;
}

/** Runs can part although no task of theirs differs: one goes on, or the same is written in another order. `nameOf` shows an id. */
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
