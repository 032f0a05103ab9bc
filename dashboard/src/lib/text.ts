// Text of runs as plain text: control characters are escaped, and long text is cut with a mark.

// Control characters, marks that change the text direction, and others without width.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Escapes control characters as `\u{1b}`, except line breaks and tabs. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (char) => (char === '\r' ? '\\r' : `\\u{${char.codePointAt(0)!.toString(16)}}`));
}

/** Escapes control characters, and joins the lines. */
export function oneLine(text: string, most = 400): string {
  const line = visible(text).replaceAll('\n', '↵').replaceAll('\t', ' ');
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

/** Formats a value as one line of JSON. */
export function brief(value: unknown, most = 160): string {
  if (value === undefined) return '';
  return oneLine(typeof value === 'string' ? JSON.stringify(value) : (JSON.stringify(value) ?? ''), most);
}

/** Formats a value as readable JSON. */
export function pretty(value: unknown): string {
  if (value === undefined) return '';
  return visible(JSON.stringify(value, null, 2) ?? '');
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en-GB')} ${count === 1 ? one : many}`;
}

export function count(number: number): string {
  return number.toLocaleString('en-GB');
}

export function bytes(number: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) {
    number /= 1000;
    unit += 1;
  }
  return `${number < 10 && unit > 0 ? number.toFixed(1) : Math.round(number)} ${units[unit]}`;
}

/** Formats a rate with as many digits as are useful. */
export function rate(number: number): string {
  if (!Number.isFinite(number)) return '–';
  if (number === 0) return '0';
  if (number < 1) return number.toFixed(2);
  if (number < 100) return number.toFixed(1);
  return count(Math.round(number));
}

/** Returns the last parts of a path with its line: `examples/orders.rs:97`. */
export function place(at: string | null | undefined, parts = 2): string {
  if (!at) return '';
  return visible(at.split('/').slice(-parts).join('/'));
}
