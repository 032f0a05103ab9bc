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
  if ((summary?.differences ?? differences.length) > 0 || !parting) return { then: 'then they part', none: '' };
  if (!parting.a || !parting.b) {
    const [goesOn, ends] = parting.a ? [a, b] : [b, a];
    return { then: `then only ${nameOf(goesOn.id)} goes on`, none: `As far as ${nameOf(ends.id)} goes, every task asked for the same and got the same.` };
  }
  const isAlike = parting.a.task === parting.b.task && parting.a.type === parting.b.type;
  if (isAlike) return { then: 'then they are written differently', none: 'Every task asked for the same and got the same: only what is written besides differs.' };
  return { then: 'then the order differs', none: 'Task by task they did the same: only the order in which it was written differs.' };
}
