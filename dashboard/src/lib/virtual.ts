// The visible rows of a long list.

export interface Range {
  from: number;
  to: number;
}

/** Returns the rows in a window, and some around them; `to` is exclusive. */
export function visibleRange(scrollTop: number, height: number, rowHeight: number, count: number, around = 8): Range {
  if (count <= 0 || rowHeight <= 0) return { from: 0, to: 0 };
  const first = Math.floor(Math.max(0, scrollTop) / rowHeight);
  const last = Math.ceil((Math.max(0, scrollTop) + Math.max(0, height)) / rowHeight);
  return { from: Math.min(count, Math.max(0, first - around)), to: Math.min(count, last + around) };
}

/** Returns the scroll position that makes a whole row visible. */
export function scrollToSee(index: number, scrollTop: number, height: number, rowHeight: number): number {
  const top = index * rowHeight;
  if (top < scrollTop) return top;
  if (top + rowHeight > scrollTop + height) return top + rowHeight - height;
  return scrollTop;
}

/** Returns the row that a key leads to; null if the key doesn't move. */
export function rowAfterKey(key: string, index: number, count: number, page: number): number | null {
  const moves: Record<string, number> = { ArrowDown: index + 1, ArrowUp: index - 1, PageDown: index + page, PageUp: index - page, Home: 0, End: count - 1 };
  const to = moves[key];
  if (to === undefined || count === 0) return null;
  return Math.min(count - 1, Math.max(0, to));
}

/** Returns the pages of `size` rows that overlap a range. */
export function pagesOf(range: Range, size: number): number[] {
  if (range.to <= range.from) return [];
  const pages = [];
  for (let page = Math.floor(range.from / size); page * size < range.to; page += 1) pages.push(page);
  return pages;
}
