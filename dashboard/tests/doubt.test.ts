import { describe, expect, it } from 'vitest';
import { callOf, mismatch } from '../src/lib/doubt';

describe('the key of a step', () => {
  it('names the record of the call, in any generation', () => {
    expect(callOf('e3b98a4d-a31a-427d-8bde-6e43033f66ba/2')).toBe(2);
    expect(callOf('e3b98a4d-a31a-427d-8bde-6e43033f66ba/3.140')).toBe(140);
  });
});

describe('a result', () => {
  it.each([
    [5, 7, null],
    [5, 1.5, 'the result was a whole number before, but is now a number'],
    [1.5, 2, null],
    [5, 'five', 'the result was a whole number before, but is now text'],
    [null, { any: 'thing' }, null],
    ['x', null, 'the result was text before, but is now null'],
    [[], [1, 2], null],
    [[1, 2], [1], null],
    [[1, 2], [1, '2'], 'the result[1] was a whole number before, but is now text'],
    [{ a: 1 }, { a: 2, b: 3 }, null],
    [{ a: 1, b: 2 }, { a: 1 }, 'the result is missing “b”, which it had before'],
    [{ a: { b: true } }, { a: { b: 1 } }, 'the result.a.b was true or false before, but is now a whole number'],
    [{ $dataclass: 'shop:Item', price: 1 }, { price: 1 }, null],
    [{ $blob: '00', len: 2_000_000 }, 'anything', null],
  ])('%j, then %j', (earlier, value, expected) => {
    expect(mismatch(earlier, value)).toBe(expected);
  });
});
