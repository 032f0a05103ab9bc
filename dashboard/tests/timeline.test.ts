import { describe, expect, it } from 'vitest';
import { clamped, panned, sliceAt, ticks, tidList, timeOf, xOf, zoomed } from '../src/lib/timeline';
import type { Lane } from '../src/lib/types';

describe('the part of the time that is seen', () => {
  it('stays within what there is', () => {
    expect(clamped({ from: -50, to: 50 }, 1000)).toEqual({ from: 0, to: 100 });
    expect(clamped({ from: 950, to: 1050 }, 1000)).toEqual({ from: 900, to: 1000 });
    expect(clamped({ from: 0, to: 5000 }, 1000)).toEqual({ from: 0, to: 1000 });
    expect(clamped({ from: 10, to: 11 }, 1000)).toEqual({ from: 10, to: 30 });
  });

  it('comes nearer around a moment that stays where it is', () => {
    const view = zoomed({ from: 0, to: 1000 }, 0.5, 250, 1000);
    expect(view).toEqual({ from: 125, to: 625 });
    expect(xOf(250, view, 800)).toBe(xOf(250, { from: 0, to: 1000 }, 800));
    expect(zoomed(view, 100, 250, 1000)).toEqual({ from: 0, to: 1000 });
  });

  it('moves', () => {
    expect(panned({ from: 100, to: 200 }, 0.5, 1000)).toEqual({ from: 150, to: 250 });
    expect(panned({ from: 100, to: 200 }, -9, 1000)).toEqual({ from: 0, to: 100 });
  });

  it('is on the screen and back', () => {
    expect(timeOf(xOf(333, { from: 100, to: 900 }, 640), { from: 100, to: 900 }, 640)).toBeCloseTo(333);
  });

  it('has round ticks, not too many', () => {
    expect(ticks({ from: 0, to: 1000 }, 900)).toEqual([0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]);
    expect(ticks({ from: 0, to: 3_600_000_000 }, 900).slice(0, 3)).toEqual([0, 600_000_000, 1_200_000_000]);
    expect(ticks({ from: 5, to: 6 }, 10).length).toBeLessThanOrEqual(1);
  });
});

describe('the slices of a lane', () => {
  const lane: Lane = { tid: 1, slices: [[0, 10, 'run', 1], [10, 50, 'sleep', 2], [80, null, 'effect', 3]] };

  it('are found by their moment', () => {
    expect([0, 9.9, 10, 49, 60, 80, 99].map((time) => sliceAt(lane, time, 100)?.[2] ?? null)).toEqual(['run', 'run', 'sleep', 'sleep', null, 'effect', 'effect']);
    expect(sliceAt(lane, 101, 100)).toBeNull();
    expect(sliceAt(undefined, 1, 100)).toBeNull();
  });

  it('are asked for by few letters', () => {
    expect(tidList([3, 1, 2, 9, 7, 8, 20])).toBe('1-3,7-9,20');
    expect(tidList([])).toBe('');
  });
});
