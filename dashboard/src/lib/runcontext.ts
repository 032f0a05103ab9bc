// Which run the values on the screen are of: whoever shows a run says it, whoever shows a value asks.
import { getContext, setContext } from 'svelte';

const KEY = Symbol('run');

export function setRun(run: () => string) {
  setContext(KEY, run);
}

/** Nothing where values are of no run, or of several. */
export function theRun(): (() => string) | undefined {
  return getContext<(() => string) | undefined>(KEY);
}
