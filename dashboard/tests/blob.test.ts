import { describe, expect, it } from 'vitest';
import { blobOf, cutTo, piecesOf } from '../src/lib/blob';

const HASH = 'bd4cef0c5ac23a8851ff4a802247a934657f4ad8e4c1da8436c09fff119afbc5';
const blob = { $blob: HASH, len: 300_002 };
const told = { hash: HASH, len: 300_002 };

describe('values that are kept elsewhere', () => {
  it('are known by their form', () => {
    expect(blobOf(blob)).toEqual(told);
    expect(blobOf({ ...blob, as: 'bytes' })).toEqual(told);
  });

  it.each([null, 7, HASH, [blob], {}, { $blob: HASH }, { $blob: 'abc', len: 3 }, { $blob: HASH.toUpperCase(), len: 3 }, { $blob: HASH, len: -1 }, { $blob: HASH, len: 1.5 }, { $blob: HASH, len: '3' }, { ...blob, as: 'text' }, { ...blob, more: 1 }])(
    'are not %j',
    (value) => expect(blobOf(value)).toBeNull(),
  );

  it('stand where they belong', () => {
    expect(piecesOf({ a: [1], b: blob }, new Map())).toEqual(['{\n  "a": [\n    1\n  ],\n  "b": ', told, '\n}']);
    expect(piecesOf(blob, new Map())).toEqual(['', told, '']);
    expect(piecesOf({ b: blob }, new Map([[HASH, { c: 1 }]]))).toEqual(['{\n  "b": {\n    "c": 1\n  }\n}']);
    expect(piecesOf(undefined, new Map())).toEqual(['']);
  });

  it('are not looked for in what a run wrote', () => {
    const own = { $json: { deep: [blob] } };
    expect(piecesOf(own, new Map())).toEqual([JSON.stringify(own, null, 2)]);
    expect(piecesOf(blob, new Map([[HASH, [blob]]]))).toEqual([JSON.stringify([blob], null, 2)]);
    expect(piecesOf(['blob', blob, 'blob-'], new Map())).toEqual(['[\n  "blob",\n  ', told, ',\n  "blob-"\n]']);
  });

  it('are cut with the text around them', () => {
    expect(cutTo(['abc', told, 'def'], 4)).toEqual(['abc', told, 'd']);
    expect(cutTo(['abc', told, 'def'], 3)).toEqual(['abc']);
  });
});
