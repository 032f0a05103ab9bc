// Shows figures as tiffany-bench does: a table for people, a JSON object a line for programs.

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The value that so many of a hundred are not above; 0 where there is none. */
export function percentile(values, percent) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length === 0 ? 0 : sorted[Math.min(sorted.length - 1, Math.ceil((percent / 100) * sorted.length) - 1)];
}

const columnsOf = (measure) => Object.keys(measure.samples[0].beside ?? {});
const beside = (measure, column) => median(measure.samples.map((sample) => sample.beside[column]));

function short(value) {
  if (Math.abs(value) >= 1000) return value.toFixed(0);
  return value.toFixed(Math.abs(value) >= 100 ? 1 : 2);
}

/** Each target of a measure in words, with whether it is reached. */
export function verdicts(measure) {
  return measure.targets.map(({ column, most }) => {
    const is = column ? beside(measure, column) : median(measure.samples.map((sample) => sample.value));
    return { words: `${column ? `${column} ` : ''}at most ${most}: ${is.toFixed(2)}`, isReached: is <= most };
  });
}

export function table(measure) {
  const values = measure.samples.map((sample) => sample.value);
  const columns = columnsOf(measure);
  const spread = `${short(Math.min(...values))} – ${short(Math.max(...values))}`;
  const lines = [
    `${measure.name}: ${measure.what} (${measure.unit}, lower is better)`,
    `  ${''.padEnd(10)}${'median'.padStart(12)}${'lowest – highest'.padStart(26)}${'ratio'.padStart(10)}${columns.map((column) => column.padStart(16)).join('')}`,
    `  ${'tiffany'.padEnd(10)}${short(median(values)).padStart(12)}${spread.padStart(26)}${'1.00'.padStart(10)}${columns.map((column) => short(beside(measure, column)).padStart(16)).join('')}`,
    ...verdicts(measure).map(({ words, isReached }) => `  target: ${words}, ${isReached ? 'reached' : 'NOT reached'}`),
  ];
  return `${lines.join('\n')}\n`;
}

export function json(measure) {
  const values = measure.samples.map((sample) => sample.value);
  const round = (value) => Number(value.toFixed(3));
  return JSON.stringify({
    measure: measure.name,
    unit: measure.unit,
    better: 'lower',
    tiffany: round(median(values)),
    peers: {},
    spread: { tiffany: [round(Math.min(...values)), round(Math.max(...values))] },
    ...Object.fromEntries(columnsOf(measure).map((column) => [column, { tiffany: round(beside(measure, column)) }])),
  });
}
