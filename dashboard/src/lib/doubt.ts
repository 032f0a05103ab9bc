// Steps in doubt: the call that a key refers to, and whether a value can be its result.

/**
 * Returns the record of the call in a key: `RUN/12`, or `RUN/2.12` in a later generation of the
 * run.
 */
export function callOf(key: string): number {
  return Number(/\d+$/.exec(key)?.[0] ?? 0);
}

type Kind = 'null' | 'true or false' | 'a whole number' | 'a number' | 'text' | 'a list' | 'an object';

function kindOf(value: unknown): Kind {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'an object';
  if (typeof value === 'number') return Number.isInteger(value) ? 'a whole number' : 'a number';
  return typeof value === 'boolean' ? 'true or false' : 'text';
}

const isTagged = (value: object) => Object.keys(value).some((key) => key.startsWith('$'));

/**
 * Returns the first place at which a value differs in type from an earlier result of the same step;
 * null if there is none. Where the earlier result was null, or an object of a class of the program,
 * any value is accepted.
 */
export function mismatch(earlier: unknown, value: unknown, place = 'the result'): string | null {
  const [was, is] = [kindOf(earlier), kindOf(value)];
  if (was === 'null' || (was === 'an object' && isTagged(earlier as object))) return null;
  if (was === 'a number' && is === 'a whole number') return null;
  if (was !== is) return `${place} was ${was} before, but is now ${is}`;
  if (was === 'a list') return first((earlier as unknown[]).map((one, index) => [one, index]), value as object, place);
  if (was === 'an object') return first(Object.entries(earlier as object).map(([key, one]) => [one, key]), value as object, place);
  return null;
}

function first(parts: [unknown, string | number][], value: object, place: string): string | null {
  for (const [earlier, key] of parts) {
    if (!Object.hasOwn(value, key)) {
      if (typeof key === 'number') return null;
      return `${place} is missing “${key}”, which it had before`;
    }
    const found = mismatch(earlier, (value as Record<string | number, unknown>)[key], typeof key === 'number' ? `${place}[${key}]` : `${place}.${key}`);
    if (found) return found;
  }
  return null;
}
