// Blobs, which are values stored outside the log's lines: a record has their hash and length.

export interface Kept {
  hash: string;
  len: number;
}

/**
 * Returns the blob that a value refers to, if it is a reference: `{"$blob": HASH, "len": BYTES}`,
 * with `"as": "bytes"` for data that is not JSON.
 */
export function blobOf(value: unknown): Kept | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const { $blob: hash, len, as, ...rest } = value as Record<string, unknown>;
  if (typeof hash !== 'string' || !/^[\da-f]{64}$/.test(hash) || !Number.isSafeInteger(len) || (len as number) < 0) return null;
  return (as === undefined || as === 'bytes') && Object.keys(rest).length === 0 ? { hash, len: len as number } : null;
}

/**
 * Formats a value as readable JSON in pieces: text, and blobs that are not loaded. Blobs in `read`
 * are replaced by their content.
 */
export function piecesOf(value: unknown, read: ReadonlyMap<string, unknown>): (string | Kept)[] {
  const found: Kept[] = [];
  // A value of the run that looks like a reference is marked by `$json`; neither such values nor
  // loaded blobs are searched.
  const plain = new WeakSet<object>();
  const walk = (mark: string) =>
    JSON.stringify(
      value,
      function (this: object, key: string, one: unknown) {
        const keep = (it: unknown) => {
          if (typeof it === 'object' && it !== null) plain.add(it);
          return it;
        };
        if (plain.has(this) || key === '$json') return keep(one);
        const blob = blobOf(one);
        if (!blob) return one;
        if (read.has(blob.hash)) return keep(read.get(blob.hash));
        found.push(blob);
        return mark;
      },
      2,
    ) ?? '';
  let mark = 'blob';
  let parts = walk(mark).split(`"${mark}"`);
  // If the text of the run contains the mark, another mark is used.
  while (parts.length !== found.length + 1) {
    mark += '-';
    found.length = 0;
    parts = walk(mark).split(`"${mark}"`);
  }
  return parts.flatMap((part, index) => (index === 0 ? [part] : [found[index - 1]!, part]));
}

/** Returns the first pieces, up to this many characters. */
export function cutTo(pieces: readonly (string | Kept)[], most: number): (string | Kept)[] {
  const kept: (string | Kept)[] = [];
  for (const piece of pieces) {
    if (most <= 0) break;
    kept.push(typeof piece === 'string' ? piece.slice(0, most) : piece);
    if (typeof piece === 'string') most -= piece.length;
  }
  return kept;
}
