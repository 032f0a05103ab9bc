// Formats times and durations. It doesn't read a clock.

/** Returns the milliseconds since 1970 of an RFC 3339 text, with its nanoseconds as a fraction. */
export function moment(text: string): number {
  const found = /^(.*?)(\.\d+)?(Z|[+-]\d\d:\d\d)$/.exec(text);
  if (!found) return Date.parse(text);
  return Date.parse(`${found[1]}${found[3]}`) + (found[2] ? Number(`0${found[2]}`) * 1000 : 0);
}

/** Formats a duration: `340 µs`, `12 ms`, `3.4 s`, `2 m 05 s`, `3 h 12 m`, `4 d 2 h`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return '–';
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms === 0) return '0 s';
  if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${String(Math.floor(s % 60)).padStart(2, '0')} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, '0')} m`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

/** Formats an age: `just now`, `12 s ago`, `4 m ago`, `3 h ago`, `5 d ago`. */
export function ago(then: number, now: number): string {
  const s = (now - then) / 1000;
  if (s < 2) return 'just now';
  if (s < 60) return `${Math.floor(s)} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} m ago`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86_400)} d ago`;
}

const two = (number: number) => String(number).padStart(2, '0');

/** Formats the time of day with milliseconds, in the local time zone. */
export function clock(ms: number): string {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, '0')}`;
}

/** Formats the day and the time. */
export function day(ms: number): string {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** Parses `15m`, `1h` or `7d` to milliseconds; null for other text. */
export function span(text: string): number | null {
  const found = /^(\d+)([smhdw])$/.exec(text);
  if (!found) return null;
  const unit = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 }[found[2] as 's'];
  return Number(found[1]) * unit * 1000;
}

/**
 * Converts a time in a link to the text of a local date and time field; empty if it is not valid.
 */
export function fieldOf(text: string): string {
  const at = moment(text);
  return Number.isNaN(at) ? '' : day(at).slice(0, 16).replace(' ', 'T');
}

/**
 * Converts the text of a date and time field to the time for a link, which is the same everywhere.
 */
export function ofField(text: string): string {
  const at = Date.parse(text);
  return Number.isNaN(at) ? '' : `${new Date(at).toISOString().slice(0, 16)}:00Z`;
}

/** Parses a start time: a time, or a duration before now. */
export function sinceOf(text: string, now: number): string | undefined {
  const length = span(text);
  if (length !== null) return new Date(now - length).toISOString();
  return Number.isNaN(moment(text)) ? undefined : text;
}

/** Replaces times in a text by local times: `sleep until 14:02:11`. */
export function withClocks(text: string, now: number): string {
  return text.replace(/\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (found) => {
    const at = moment(found.replace(' ', 'T'));
    return Math.abs(at - now) < 43_200_000 ? clock(at).slice(0, 8) : day(at);
  });
}
