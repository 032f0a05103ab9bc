// Tags and attributes of runs: as chips, and as filters.
import type { AttributeValue, RunSummary } from './types';

export interface Chip {
  text: string;
  /** What the list is asked for when the chip is chosen. */
  filter: { tag: string } | { attribute: string };
}

/** A value as a filter has it. A text that could be read as something else stands between quotation marks. */
export function literal(value: AttributeValue): string {
  if (typeof value === 'object') return value.time.replace(/\.?0*Z$/, 'Z');
  if (typeof value !== 'string') return String(value);
  const isPlain = /^[A-Za-z_][^",]*$/.test(value) && value === value.trim() && value !== 'true' && value !== 'false';
  return isPlain ? value : JSON.stringify(value);
}

/** A tag as a filter has it: one with a comma stands between quotation marks. */
export function quoted(tag: string): string {
  return /[",]/.test(tag) ? JSON.stringify(tag) : tag;
}

/** The tags of a run, then its attributes. */
export function chipsOf(run: Pick<RunSummary, 'tags' | 'attributes'>): Chip[] {
  const tags = (run.tags ?? []).map((tag) => ({ text: tag, filter: { tag: quoted(tag) } }));
  const values = Object.entries(run.attributes ?? {}).map(([name, value]) => {
    const text = `${name}=${literal(value)}`;
    return { text, filter: { attribute: text } };
  });
  return [...tags, ...values];
}

/** What somebody typed as a filter: a condition for an attribute if there is a comparison in it, else a tag. */
export function filterOf(typed: string): Chip['filter'] | null {
  const text = typed.trim();
  if (!text) return null;
  return /^[A-Za-z_][\w.-]*\s*(=|!=|<|>)/.test(text) ? { attribute: text } : { tag: quoted(text) };
}

/** A list of filters with one more. */
export function withOne(list: string, one: string): string {
  return partsOf(list).includes(one) ? list : [...partsOf(list), one].join(',');
}

/** A list of filters without one. */
export function without(list: string, one: string): string {
  return partsOf(list).filter((part) => part !== one).join(',');
}

/** The parts of a list that are separated by commas; one between quotation marks separates nothing. */
export function partsOf(list: string): string[] {
  return (list.match(/(?:"(?:[^"\\]|\\.)*"|[^,"])+/g) ?? []).map((part) => part.trim()).filter(Boolean);
}
