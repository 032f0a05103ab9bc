// The run that the values on the screen belong to: a view of a run sets it, and a view of a value
// reads it.
import { getContext, setContext } from 'svelte';

const KEY = Symbol('run');

export function setRun(run: () => string) {
  setContext(KEY, run);
}

/** Undefined for values that belong to no run, or to several. */
export function theRun(): (() => string) | undefined {
  return getContext<(() => string) | undefined>(KEY);
}
