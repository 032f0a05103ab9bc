// The mathematics of the timeline: the visible part of the time, and positions on the screen. Times
// are in microseconds.
import type { Kind, Lane, Slice } from './types';

export interface View {
  from: number;
  to: number;
}

export const SHORTEST_US = 20;

export function clamped(view: View, end: number): View {
  const whole = Math.max(SHORTEST_US, end);
  const length = Math.min(whole, Math.max(SHORTEST_US, view.to - view.from));
  const from = Math.min(Math.max(0, view.from), whole - length);
  return { from, to: from + length };
}

/** Zooms the view: longer (`factor` over 1) or shorter, around a moment that keeps its place. */
export function zoomed(view: View, factor: number, around: number, end: number): View {
  const length = Math.min(Math.max(SHORTEST_US, end), Math.max(SHORTEST_US, (view.to - view.from) * factor));
  const share = (around - view.from) / (view.to - view.from || 1);
  const from = around - length * share;
  return clamped({ from, to: from + length }, end);
}

export function panned(view: View, share: number, end: number): View {
  const move = (view.to - view.from) * share;
  return clamped({ from: view.from + move, to: view.to + move }, end);
}

export function xOf(time: number, view: View, width: number): number {
  return ((time - view.from) / (view.to - view.from)) * width;
}

export function timeOf(x: number, view: View, width: number): number {
  return view.from + (x / width) * (view.to - view.from);
}

/** Returns round times, at most about one per 90 pixels. */
export function ticks(view: View, width: number, apart = 90): number[] {
  const least = ((view.to - view.from) * apart) / Math.max(1, width);
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  let step = power * 10;
  for (const by of [1, 2, 5]) {
    if (power * by >= least) {
      step = power * by;
      break;
    }
  }
  // From a minute on, times are rounded to minutes and hours.
  const clock = [60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400].map((s) => s * 1_000_000);
  if (least > 30_000_000) step = clock.find((s) => s >= least) ?? Math.ceil(least / 86_400_000_000) * 86_400_000_000;
  const found = [];
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) found.push(at);
  return found;
}

/** Returns the slice of a lane at a moment. */
export function sliceAt(lane: Lane | undefined, time: number, end: number): Slice | null {
  if (!lane) return null;
  let [low, high] = [0, lane.slices.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const slice = lane.slices[middle]!;
    if (time < slice[0]) high = middle - 1;
    else if (time >= (slice[1] ?? Math.max(end, slice[0] + 1))) low = middle + 1;
    else return slice;
  }
  return null;
}

/** Formats tids as the daemon's query has them: `1-4,7`. */
export function tidList(tids: readonly number[]): string {
  const sorted = [...new Set(tids)].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let index = 0; index < sorted.length; ) {
    let last = index;
    while (last + 1 < sorted.length && sorted[last + 1] === sorted[last]! + 1) last += 1;
    parts.push(last > index ? `${sorted[index]}-${sorted[last]}` : String(sorted[index]));
    index = last + 1;
  }
  return parts.join(',');
}

export const KINDS: Record<Kind, string> = {
  run: 'running',
  ready: 'ready, waiting for its turn',
  sleep: 'sleeping',
  effect: 'waiting for a step',
  join: 'waiting for other tasks',
  promise: 'waiting for a promise',
  message: 'waiting for a message',
  approval: 'waiting for a person',
  lock: 'waiting for a lock',
  io: 'waiting for a descriptor',
  other: 'waiting for something else',
  mixed: 'several, too short to show separately',
};
