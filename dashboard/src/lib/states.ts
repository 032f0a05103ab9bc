// The names and looks of states. A state is never shown by its colour alone: each has a glyph and a
// name.

export type Tone = 'bad' | 'warn' | 'good' | 'live' | 'quiet';

interface Look {
  tone: Tone;
  /** The path of an icon in a 16 by 16 square. */
  glyph: string;
}

const CROSS = 'M4.5 4.5l7 7M11.5 4.5l-7 7';
const CHECK = 'M3.5 8.5l3 3 6-7';
const PAUSE = 'M5.5 4v8M10.5 4v8';
const DOT = 'M8 5.2a2.8 2.8 0 1 0 0 5.6a2.8 2.8 0 1 0 0-5.6z';
const CLOCK = 'M8 2.8a5.2 5.2 0 1 0 0 10.4a5.2 5.2 0 1 0 0-10.4zM8 5v3.2l2 1.3';
const STOP = 'M8 2.8a5.2 5.2 0 1 0 0 10.4a5.2 5.2 0 1 0 0-10.4zM4.5 11.5l7-7';
const WARN = 'M8 2.5l6 10.5H2zM8 6.5v3M8 11.2v.2';
const PLAY = 'M5 3.5v9l7-4.5z';
const RING = 'M8 4a4 4 0 1 0 0 8a4 4 0 1 0 0-8z';
const PERSON = 'M8 2.8a2.4 2.4 0 1 0 0 4.8a2.4 2.4 0 1 0 0-4.8zM3.2 13.2c.4-3 2.3-4 4.8-4s4.4 1 4.8 4';
const AGAIN = 'M12.5 6A5 5 0 1 0 13 9M12.8 3v3.2H9.6';

const LOOKS: Record<string, Look> = {
  live: { tone: 'live', glyph: PLAY },
  ending: { tone: 'bad', glyph: CLOCK },
  running: { tone: 'live', glyph: PLAY },
  ready: { tone: 'live', glyph: DOT },
  new: { tone: 'quiet', glyph: RING },
  waiting: { tone: 'warn', glyph: CLOCK },
  queued: { tone: 'warn', glyph: CLOCK },
  retrying: { tone: 'warn', glyph: AGAIN },
  paused: { tone: 'warn', glyph: PAUSE },
  held: { tone: 'warn', glyph: PAUSE },
  approval: { tone: 'warn', glyph: PERSON },
  in_doubt: { tone: 'warn', glyph: WARN },
  timed_out: { tone: 'bad', glyph: CLOCK },
  refused: { tone: 'bad', glyph: STOP },
  failed: { tone: 'bad', glyph: CROSS },
  damaged: { tone: 'bad', glyph: WARN },
  completed: { tone: 'good', glyph: CHECK },
  ok: { tone: 'good', glyph: CHECK },
  done: { tone: 'good', glyph: CHECK },
  cancelled: { tone: 'quiet', glyph: STOP },
  left: { tone: 'quiet', glyph: STOP },
  removed: { tone: 'quiet', glyph: CROSS },
};

export function look(state: string): Look {
  return LOOKS[state] ?? { tone: 'quiet', glyph: RING };
}

/**
 * Returns the state in which a run is shown: an active run with open questions waits for a person.
 */
export function shownAs(state: string, asks: boolean): string {
  return asks && state === 'live' ? 'approval' : state;
}

/** Returns whether a run in this state may still continue. */
export function isUnfinished(state: string): boolean {
  return state === 'live' || state === 'ending' || state === 'paused' || state === 'held';
}

export function word(state: string): string {
  if (state === 'approval') return 'needs approval';
  return state.replaceAll('_', ' ');
}
