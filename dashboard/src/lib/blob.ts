// Values that are kept beside the log, as blobs: a record has their hash and how long they are.

export interface Kept {
  hash: string;
  len: number;
}

/** The blob that a value stands for, if it is one: `{"$blob": HASH, "len": BYTES}`, and `"as": "bytes"` for what is no JSON. */
export function blobOf(value: unknown): Kept | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const { $blob: hash, len, as, ...rest } = value as Record<string, unknown>;
  if (typeof hash !== 'string' || !/^[\da-f]{64}$/.test(hash) || !Number.isSafeInteger(len) || (len as number) < 0) return null;
  return (as === undefined || as === 'bytes') && Object.keys(rest).length === 0 ? { hash, len: len as number } : null;
}

/** A value as readable JSON, in pieces: text, and the blobs that were not read yet. Those of `read` stand in their place. */
export function piecesOf(value: unknown, read: ReadonlyMap<string, unknown>): (string | Kept)[] {
  const found: Kept[] = [];
  // What a run itself wrote in that form is marked by `$json`; neither it nor what was read is looked into.
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
  // Somebody's text can be the mark, too: then another one is taken.
  while (parts.length !== found.length + 1) {
    mark += '-';
    found.length = 0;
    parts = walk(mark).split(`"${mark}"`);
  }
  return parts.flatMap((part, index) => (index === 0 ? [part] : [found[index - 1]!, part]));
}

/** As many of the pieces as have so many characters. */
export function cutTo(pieces: readonly (string | Kept)[], most: number): (string | Kept)[] {
  const kept: (string | Kept)[] = [];
  for (const piece of pieces) {
    if (most <= 0) break;
    kept.push(typeof piece === 'string' ? piece.slice(0, most) : piece);
    if (typeof piece === 'string') most -= piece.length;
  }
  return kept;
}
