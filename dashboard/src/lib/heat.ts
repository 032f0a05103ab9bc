// Cells of a heat map over time.

/** Averages two readings per cell, the latest last; null for cells without a reading. */
export function cellsOf(rates: readonly number[], cells: number): (number | null)[] {
  const first = rates.length - cells * 2;
  return Array.from({ length: cells }, (_, index) => {
    const there = [rates[first + index * 2], rates[first + index * 2 + 1]].filter((one) => one !== undefined);
    return there.length > 0 ? there.reduce((all, one) => all + one, 0) / there.length : null;
  });
}

/** Returns the strength of a cell's colour. The square root keeps low values visible. */
export function heat(value: number, most: number): number {
  return value <= 0 ? 0 : 0.15 + 0.85 * Math.sqrt(value / most);
}
