import { describe, expect, it } from 'vitest';
import { cellsOf, heat } from '../src/lib/heat';

describe('a heat map', () => {
  it('says what was not read yet', () => {
    expect(cellsOf([], 3)).toEqual([null, null, null]);
    expect(cellsOf([4], 3)).toEqual([null, null, 4]);
    expect(cellsOf([2, 4, 6], 3)).toEqual([null, 2, 5]);
  });
  it('keeps the last ones', () => expect(cellsOf([9, 9, 1, 3, 0, 0], 2)).toEqual([2, 0]));
  it('shows what is quiet', () => {
    expect([heat(0, 100), heat(100, 100)]).toEqual([0, 1]);
    expect(heat(0.01, 100)).toBeGreaterThan(0.15);
  });
});
