import { describe, expect, it } from 'vitest';
import { pagesOf, rowAfterKey, scrollToSee, visibleRange } from '../src/lib/virtual';

describe('the rows on the screen', () => {
  it('are few of very many', () => {
    expect(visibleRange(0, 300, 30, 100_000, 0)).toEqual({ from: 0, to: 10 });
    expect(visibleRange(3_000_015, 300, 30, 200_000, 2)).toEqual({ from: 99_998, to: 100_013 });
  });

  it('end where the list ends', () => {
    expect(visibleRange(2_900, 300, 30, 100, 8)).toEqual({ from: 88, to: 100 });
    expect(visibleRange(99_999, 300, 30, 100, 8)).toEqual({ from: 100, to: 100 });
    expect(visibleRange(-50, 300, 30, 3)).toEqual({ from: 0, to: 3 });
    expect(visibleRange(0, 300, 30, 0)).toEqual({ from: 0, to: 0 });
  });

  it('scroll no further than is needed', () => {
    expect([scrollToSee(5, 0, 300, 30), scrollToSee(10, 0, 300, 30), scrollToSee(2, 90, 300, 30)]).toEqual([0, 30, 60]);
  });

  it('are gone through by keys', () => {
    expect(['ArrowDown', 'ArrowUp', 'PageDown', 'PageUp', 'Home', 'End', 'x'].map((key) => rowAfterKey(key, 5, 20, 10))).toEqual([6, 4, 15, 0, 0, 19, null]);
    expect(rowAfterKey('ArrowDown', 0, 0, 10)).toBeNull();
    expect(rowAfterKey('ArrowDown', 19, 20, 10)).toBe(19);
  });

  it('are on pages', () => {
    expect(pagesOf({ from: 150, to: 401 }, 200)).toEqual([0, 1, 2]);
    expect(pagesOf({ from: 200, to: 400 }, 200)).toEqual([1]);
    expect(pagesOf({ from: 3, to: 3 }, 200)).toEqual([]);
  });
});
