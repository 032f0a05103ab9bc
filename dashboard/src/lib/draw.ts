// Draws the lanes of a timeline on a canvas. It doesn't depend on tasks or the daemon.
import { duration } from './time';
import { ticks, xOf, type View } from './timeline';
import type { Kind, Lane } from './types';

export interface Picture {
  view: View;
  /** The current end of the time. */
  end: number;
  rows: { tid: number; label: string; lane: Lane | undefined; y: number }[];
  rowHeight: number;
  selected: number | null;
  only: Kind | null;
  left: number;
  width: number;
  height: number;
  colours: Record<string, string>;
  /** The moment of the time-travel slider. */
  mark: number | null;
}

const AXIS = 26;
export { AXIS };

export function draw(on: CanvasRenderingContext2D, picture: Picture) {
  const { width, height, left, colours, view } = picture;
  on.clearRect(0, 0, width, height);
  const lanes = width - left;
  on.font = `11.5px ${colours.font}`;
  on.textBaseline = 'middle';
  for (const at of ticks(view, lanes)) {
    const x = Math.round(left + xOf(at, view, lanes)) + 0.5;
    if (x < left) continue;
    on.strokeStyle = colours.line!;
    on.beginPath();
    on.moveTo(x, AXIS - 6);
    on.lineTo(x, height);
    on.stroke();
    on.fillStyle = colours.muted!;
    on.fillText(at === 0 ? 'start' : `+${duration(at / 1000)}`, x + 4, AXIS / 2);
  }
  on.save();
  on.beginPath();
  on.rect(0, AXIS, width, height - AXIS);
  on.clip();
  for (const row of picture.rows) drawRow(on, picture, row, lanes);
  on.restore();
  for (const [time, colour] of [[picture.mark, colours.warn], [picture.end, colours.accent]] as const) {
    if (time === null || time < view.from || time > view.to) continue;
    const x = Math.round(left + xOf(time, view, lanes));
    on.fillStyle = colour!;
    on.fillRect(x - 1, AXIS - 8, 2, height - AXIS + 8);
  }
}

function drawRow(on: CanvasRenderingContext2D, picture: Picture, row: Picture['rows'][number], lanes: number) {
  const { left, rowHeight, view, colours, end } = picture;
  const y = row.y + AXIS;
  if (row.tid === picture.selected) {
    on.fillStyle = colours.soft!;
    on.fillRect(0, y, picture.width, rowHeight);
  }
  on.font = `12.5px ${colours.font}`;
  on.textBaseline = 'middle';
  on.fillStyle = row.tid === picture.selected ? colours.text! : colours.muted!;
  on.fillText(fitted(on, row.label, left - 24), 16, y + rowHeight / 2);
  if (!row.lane) return;
  // A slice that is smaller than a pixel is not drawn over another.
  let drawnTo = -1;
  for (const [from, to, kind] of row.lane.slices) {
    const until = to ?? end;
    if (until < view.from || from > view.to) continue;
    const x1 = Math.max(0, xOf(from, view, lanes));
    const x2 = Math.min(lanes, xOf(until, view, lanes));
    if (x2 <= drawnTo) continue;
    const wide = Math.max(x2 - x1, 1);
    on.globalAlpha = picture.only && picture.only !== kind ? 0.15 : 1;
    on.fillStyle = colours[kind] ?? colours.other!;
    // Sleeping and queued slices are thinner.
    const thick = kind === 'sleep' || kind === 'ready' ? rowHeight - 19 : rowHeight - 10;
    on.fillRect(left + x1, y + (rowHeight - thick) / 2, wide, thick);
    drawnTo = x1 + wide;
  }
  on.globalAlpha = 1;
}

function fitted(on: CanvasRenderingContext2D, text: string, room: number): string {
  if (on.measureText(text).width <= room) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (on.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}
