// Text of runs as text: control characters are shown, not obeyed; what is long is cut and says so.

// Controls, the marks that turn the direction of text, and others that have no width.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Shows control characters as `\u{1b}`; a line break stays one, a tab too. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (char) => (char === '\r' ? '\\r' : `\\u{${char.codePointAt(0)!.toString(16)}}`));
}

/** The same on one line. */
export function oneLine(text: string, most = 400): string {
  const line = visible(text).replaceAll('\n', '↵').replaceAll('\t', ' ');
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

/** A value as one line of JSON. */
export function brief(value: unknown, most = 160): string {
  if (value === undefined) return '';
  return oneLine(typeof value === 'string' ? JSON.stringify(value) : (JSON.stringify(value) ?? ''), most);
}

/** A value as readable JSON. */
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

/** A rate: few digits, as many as help. */
export function rate(number: number): string {
  if (!Number.isFinite(number)) return '–';
  if (number === 0) return '0';
  if (number < 1) return number.toFixed(2);
  if (number < 100) return number.toFixed(1);
  return count(Math.round(number));
}

/** The last parts of a path in front of its line: `examples/orders.rs:97`. */
export function place(at: string | null | undefined, parts = 2): string {
  if (!at) return '';
  return visible(at.split('/').slice(-parts).join('/'));
}
