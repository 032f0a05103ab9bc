// Prometheus' text format, and figures from one or two readings of it.

export type Labels = Record<string, string>;

export interface Sample {
  name: string;
  labels: Labels;
  value: number;
}

export type Reading = Map<string, Sample[]>;

const ESCAPES: Record<string, string> = { n: '\n', '\\': '\\', '"': '"' };

function labelsOf(text: string): Labels {
  const labels: Labels = {};
  for (const [, name, value] of text.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)) {
    labels[name!] = value!.replace(/\\(.)/g, (_, char: string) => ESCAPES[char] ?? char);
  }
  return labels;
}

function numberOf(text: string): number {
  if (text === '+Inf') return Infinity;
  if (text === '-Inf') return -Infinity;
  return Number(text);
}

/** The samples by the name of their series. */
export function parse(text: string): Reading {
  const reading: Reading = new Map();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const found = /^([a-zA-Z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(\S+)/.exec(line);
    if (!found) continue;
    const sample = { name: found[1]!, labels: found[2] ? labelsOf(found[2]) : {}, value: numberOf(found[3]!) };
    const there = reading.get(sample.name);
    if (there) there.push(sample);
    else reading.set(sample.name, [sample]);
  }
  return reading;
}

function fits(labels: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([name, value]) => labels[name] === value);
}

/** Returns the sum of the samples with these labels; 0 if there are none. */
export function sum(reading: Reading, name: string, wanted: Labels = {}): number {
  let all = 0;
  for (const sample of reading.get(name) ?? []) if (fits(sample.labels, wanted)) all += sample.value;
  return all;
}

/** Returns sums by the value of one label, the largest first. */
export function by(reading: Reading, name: string, label: string): { key: string; value: number }[] {
  const sums = new Map<string, number>();
  for (const sample of reading.get(name) ?? []) {
    const key = sample.labels[label] ?? '';
    sums.set(key, (sums.get(key) ?? 0) + sample.value);
  }
  return [...sums].map(([key, value]) => ({ key, value })).sort((a, b) => b.value - a.value || a.key.localeCompare(b.key));
}

/** Returns the growth of a counter per second. A counter that fell was reset. */
export function ratePerSecond(before: number, after: number, seconds: number): number {
  if (seconds <= 0) return 0;
  return (after >= before ? after - before : after) / seconds;
}

/**
 * Returns a quantile of a histogram, over its growth since `before` if that is given; null without
 * data.
 */
export function quantile(reading: Reading, name: string, q: number, wanted: Labels = {}, before?: Reading): number | null {
  const buckets = new Map<number, number>();
  const add = (from: Reading, sign: number) => {
    for (const sample of from.get(`${name}_bucket`) ?? []) {
      if (!fits(sample.labels, wanted)) continue;
      const bound = numberOf(sample.labels.le ?? 'NaN');
      buckets.set(bound, (buckets.get(bound) ?? 0) + sign * sample.value);
    }
  };
  add(reading, 1);
  if (before) add(before, -1);
  const sorted = [...buckets].filter(([bound]) => !Number.isNaN(bound)).sort((a, b) => a[0] - b[0]);
  const all = sorted.at(-1)?.[1] ?? 0;
  if (all <= 0) return null;
  const wantedCount = q * all;
  let [lower, below] = [0, 0];
  for (const [bound, upTo] of sorted) {
    if (upTo >= wantedCount) {
      if (bound === Infinity) return lower;
      return upTo === below ? bound : lower + ((bound - lower) * (wantedCount - below)) / (upTo - below);
    }
    [lower, below] = [bound, upTo];
  }
  return lower;
}

/** Returns the mean of a histogram. */
export function mean(reading: Reading, name: string, wanted: Labels = {}): number | null {
  const times = sum(reading, `${name}_count`, wanted);
  return times > 0 ? sum(reading, `${name}_sum`, wanted) / times : null;
}
