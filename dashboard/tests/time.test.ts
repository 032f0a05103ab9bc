import { describe, expect, it } from 'vitest';
import { ago, clock, duration, fieldOf, moment, ofField, sinceOf, span, withClocks } from '../src/lib/time';

describe('moments and durations', () => {
  it('keeps the nanoseconds of a moment', () => {
    expect(moment('2026-11-17T03:02:14.690700764Z')).toBeCloseTo(Date.UTC(2026, 10, 17, 3, 2, 14) + 690.700764, 3);
    expect(moment('2026-11-17T03:02:14Z')).toBe(Date.UTC(2026, 10, 17, 3, 2, 14));
    expect(moment('2026-11-17T04:02:14.5+01:00')).toBe(Date.UTC(2026, 10, 17, 3, 2, 14, 500));
  });

  it.each([
    [0, '0 s'], [0.34, '340 µs'], [0.0001, '1 µs'], [2.5, '2.5 ms'], [340, '340 ms'], [3400, '3.4 s'], [59_900, '59 s'], [125_000, '2 m 05 s'], [11_520_000, '3 h 12 m'], [353_000_000, '4 d 2 h'], [-1000, '−1.0 s'], [NaN, '–'],
  ])('%d ms is %s', (ms, text) => expect(duration(ms)).toBe(text));

  it('says how long ago', () => {
    expect([1, 12, 240, 7300, 200_000].map((s) => ago(0, s * 1000))).toEqual(['just now', '12 s ago', '4 m ago', '2 h ago', '2 d ago']);
  });

  it('reads spans of filters', () => {
    expect(['15m', '1h', '7d', '', '1y', 'x'].map(span)).toEqual([900_000, 3_600_000, 604_800_000, null, null, null]);
  });

  it('shows moments in texts as clocks do', () => {
    const at = '2026-11-17T04:02:14.693209398Z';
    expect(withClocks(`sleep until ${at}`, moment(at))).toBe(`sleep until ${clock(moment(at)).slice(0, 8)}`);
    expect(withClocks('sleep until 2026-11-17 07:56:14Z', 0)).toBe(withClocks('sleep until 2026-11-17T07:56:14.25Z', 0));
    expect(withClocks(`sleep until ${at}`, 0)).toMatch(/^sleep until 2026-11-17 \d\d:\d\d:14$/);
  });
});

describe('moments of a filter', () => {
  it('are the same in a link and in a field', () => {
    expect(fieldOf(ofField('2026-11-17T06:30'))).toBe('2026-11-17T06:30');
    expect([fieldOf('range'), ofField(''), fieldOf('')]).toEqual(['', '', '']);
  });

  it('are so long ago, or themselves, or none', () => {
    const now = Date.parse('2026-11-17T06:30:00Z');
    expect([sinceOf('1h', now), sinceOf('2026-11-17T01:02:00Z', now), sinceOf('range', now), sinceOf('', now)]).toEqual(['2026-11-17T05:30:00.000Z', '2026-11-17T01:02:00Z', undefined, undefined]);
  });
});
