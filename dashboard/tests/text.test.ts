import { describe, expect, it } from 'vitest';
import { brief, bytes, oneLine, place, plural, pretty, rate, visible } from '../src/lib/text';

describe('text of runs', () => {
  it.each([
    ['\u001b[31mred', '\\u{1b}[31mred'],
    ['a\u0000b', 'a\\u{0}b'],
    ['turned \u202e round', 'turned \\u{202e} round'],
    ['no width\u200b', 'no width\\u{200b}'],
    ['\u009bcsi', '\\u{9b}csi'],
    ['line\r\n', 'line\\r\n'],
    ['tab\tand\nline', 'tab\tand\nline'],
    ['<b>é 漢 🙂</b>', '<b>é 漢 🙂</b>'],
  ])('shows control characters of %j', (text, shown) => expect(visible(text)).toBe(shown));

  it('is one line, and says that it is cut', () => {
    expect(oneLine('a\nb\tc')).toBe('a↵b c');
    expect(oneLine('x'.repeat(10), 4)).toBe('xxxx…');
  });

  it('shows values', () => {
    expect(brief({ a: '\u001b' })).toBe('{"a":"\\u001b"}');
    expect(brief(undefined)).toBe('');
    expect(brief('\u202e')).toBe('"\\u{202e}"');
    expect(pretty([1])).toBe('[\n  1\n]');
  });

  it('shows numbers', () => {
    expect([0, 999, 1500, 34_000_000].map(bytes)).toEqual(['0 B', '999 B', '1.5 kB', '34 MB']);
    expect([0, 0.256, 12.34, 1234.5, NaN].map(rate)).toEqual(['0', '0.26', '12.3', '1,235', '–']);
    expect([plural(1, 'run'), plural(2000, 'run')]).toEqual(['1 run', '2,000 runs']);
    expect(place('crates/cli/examples/orders.rs:97')).toBe('examples/orders.rs:97');
  });
});
