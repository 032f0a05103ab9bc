import { describe, expect, it } from 'vitest';
import { grouped, targetOf } from '../src/lib/calls';
import { by, mean, parse, quantile, ratePerSecond, sum } from '../src/lib/metrics';
import { pointOf, rates } from '../src/lib/systemview.svelte';

const TEXT = `# HELP a_total What it is.
# TYPE a_total counter
a_total{step="x",outcome="ok"} 5
a_total{step="x",outcome="failed"} 2
a_total{step="a \\"b\\" \\\\ c\\n}",outcome="ok"} 1
plain 3.5e2
age_seconds 0.5 1700000000000
h_bucket{le="0.1"} 50
h_bucket{le="1"} 90
h_bucket{le="+Inf"} 100
h_sum 42
h_count 100
broken line here
`;

describe('metrics', () => {
  const reading = parse(TEXT);

  it('are read with their labels', () => {
    expect(sum(reading, 'a_total', { step: 'x' })).toBe(7);
    expect(sum(reading, 'a_total', { step: 'a "b" \\ c\n}' })).toBe(1);
    expect(sum(reading, 'plain')).toBe(350);
    expect(sum(reading, 'age_seconds')).toBe(0.5);
    expect(sum(reading, 'nothing')).toBe(0);
    expect(by(reading, 'a_total', 'step').map((one) => one.value)).toEqual([7, 1]);
  });

  it('have quantiles between the bounds of their buckets', () => {
    expect(quantile(reading, 'h', 0.25)).toBeCloseTo(0.05);
    expect(quantile(reading, 'h', 0.7)).toBeCloseTo(0.1 + 0.9 * 0.5);
    expect(quantile(reading, 'h', 0.99)).toBe(1);
    expect(quantile(reading, 'none', 0.5)).toBeNull();
    expect(quantile(reading, 'h', 0.5, {}, reading)).toBeNull();
    expect(mean(reading, 'h')).toBe(0.42);
  });

  it('grow, or begin anew', () => {
    expect([ratePerSecond(10, 30, 2), ratePerSecond(30, 4, 2), ratePerSecond(1, 2, 0)]).toEqual([10, 2, 0]);
  });

  it('become points that are drawn', () => {
    const at = (turns: number) => parse(`tiffany_turns_total ${turns}\ntiffany_calls_total{call="sleep"} ${turns / 2}\n`);
    const points = [pointOf(at(0), 0), pointOf(at(100), 2000), pointOf(at(20), 4000)];
    expect(rates(points, 'tiffany_turns_total')).toEqual([50, 10]);
    expect(rates(points, 'call sleep')).toEqual([25, 5]);
  });

  it('of calls are grouped by where they go', () => {
    expect([targetOf('gather'), targetOf('effect'), targetOf('custom')]).toEqual(['Scheduler', 'Steps', 'Others']);
    const groups = grouped([{ call: 'spawn', total: 3, rate: 1 }, { call: 'wait', total: 9, rate: 2 }, { call: 'sleep', total: 20, rate: 0 }, { call: 'random', total: 0, rate: 0 }]);
    expect(groups.map((group) => [group.target, group.total, group.calls.map((one) => one.call)])).toEqual([['Timers and clock', 20, ['sleep']], ['Scheduler', 12, ['wait', 'spawn']]]);
  });
});
