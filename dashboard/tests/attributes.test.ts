import { describe, expect, it } from 'vitest';
import { chipsOf, filterOf, partsOf, without, withOne } from '../src/lib/attributes';

describe('chips', () => {
  it('have the tags first and write values as a filter reads them', () => {
    const run = {
      tags: ['gold', 'a,b'],
      attributes: { amount: 17, customer: 'ada', due: { time: '2027-01-15T08:00:00.000000000Z' }, number: '17', paid: false, said: 'a, b', soon: { time: '2027-01-15T08:00:00.250000000Z' } },
    };
    expect(chipsOf(run).map((chip) => chip.text)).toEqual(['gold', 'a,b', 'amount=17', 'customer=ada', 'due=2027-01-15T08:00:00Z', 'number="17"', 'paid=false', 'said="a, b"', 'soon=2027-01-15T08:00:00.25Z']);
    expect(chipsOf(run)[1]?.filter).toEqual({ tag: '"a,b"' });
    expect(chipsOf({})).toEqual([]);
  });
});

describe('filters', () => {
  it('are conditions where there is a comparison, and tags otherwise', () => {
    expect(filterOf(' amount>=10 ')).toEqual({ attribute: 'amount>=10' });
    expect(filterOf('customer = ada')).toEqual({ attribute: 'customer = ada' });
    expect(filterOf('gold')).toEqual({ tag: 'gold' });
    expect(filterOf('a,b')).toEqual({ tag: '"a,b"' });
    expect(filterOf('=x')).toEqual({ tag: '=x' });
    expect(filterOf('  ')).toBeNull();
  });

  it('are added once and removed, with their commas', () => {
    expect(partsOf('gold, "a,b",x="1,2"')).toEqual(['gold', '"a,b"', 'x="1,2"']);
    expect(withOne('', 'gold')).toBe('gold');
    expect(withOne('gold', 'gold')).toBe('gold');
    expect(withOne('gold', '"a,b"')).toBe('gold,"a,b"');
    expect(without('gold,"a,b"', '"a,b"')).toBe('gold');
  });
});
