// Live events over a WebSocket that reconnects and continues where it was. Events are passed on
// once per frame, and not stored.
import { token, withQuery } from './api';
import type { Activity } from './types';

export type LinkState = 'connecting' | 'live' | 'down';

export interface Listener {
  events(batch: Activity[]): void;
  state?(state: LinkState): void;
  /** Earlier events may be outdated: the daemon was restarted, or events were lost. */
  gap?(why: { restarted: true } | { lost: number }): void;
}

const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 8000;
/** The most events per frame, which is more than a page can show. The rest counts as lost. */
const MAX_WAITING = 20_000;

/** Returns the delay before this attempt to reconnect; `random` is between 0 and 1. */
export function delay(attempt: number, random: number): number {
  const most = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt);
  return most / 2 + (most / 2) * random;
}

/** The epoch has 64 bits, which exceeds a JavaScript number, so it stays text. */
export function epochOf(text: string): string | null {
  return /"epoch":\s*"?(\d+)/.exec(text)?.[1] ?? null;
}

export type Message = { streaming: { next_seq: number; restarted: boolean }; epoch: string | null } | { event: Activity } | { lost: number } | { end: unknown };

export function read(text: string): Message | null {
  let told: Record<string, unknown>;
  try {
    told = JSON.parse(text) as Record<string, unknown>;
  } catch {
    return null;
  }
  if (told.event) return { event: told.event as Activity };
  if (typeof told.lost === 'number') return { lost: told.lost };
  if (told.lost && typeof (told.lost as { count?: number }).count === 'number') return { lost: (told.lost as { count: number }).count };
  if (told.streaming) return { streaming: told.streaming as { next_seq: number; restarted: boolean }, epoch: epochOf(text) };
  return 'end' in told ? { end: told.end } : null;
}

export class Live {
  #socket: WebSocket | null = null;
  #epoch: string | null = null;
  #next: number | null;
  #attempt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #waiting: Activity[] = [];
  #dropped = 0;
  #isFlushing = false;
  #isStopped = false;
  #wake = () => this.#hurry();

  /** With `history`, earlier events are included as far as the daemon still has them. */
  constructor(
    private readonly path: string,
    private readonly listener: Listener,
    private readonly options: { history?: boolean; ghosts?: boolean } = {},
  ) {
    this.#next = options.history ? 0 : null;
    addEventListener('online', this.#wake);
    document.addEventListener('visibilitychange', this.#wake);
    this.#open();
  }

  stop() {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    removeEventListener('online', this.#wake);
    document.removeEventListener('visibilitychange', this.#wake);
    this.#socket?.close(1000);
    this.#waiting = [];
  }

  #hurry() {
    if (document.hidden || this.#socket || this.#isStopped) return;
    clearTimeout(this.#timer);
    this.#open();
  }

  #open() {
    this.listener.state?.(this.#attempt === 0 ? 'connecting' : 'down');
    const query = { from: this.#next ?? undefined, epoch: this.#epoch ?? undefined, ghosts: this.options.ghosts === false ? 'false' : undefined };
    const url = new URL(withQuery(`/api/v1${this.path}`, query), location.href);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    const mine = token.get();
    const socket = new WebSocket(url, mine ? ['tiffany.v1', `bearer.${mine}`] : ['tiffany.v1']);
    this.#socket = socket;
    socket.onmessage = (message) => this.#take(String(message.data));
    socket.onclose = () => this.#closed(socket);
  }

  #closed(socket: WebSocket) {
    if (this.#socket !== socket || this.#isStopped) return;
    this.#socket = null;
    this.#attempt += 1;
    this.listener.state?.('down');
    this.#timer = setTimeout(() => this.#open(), delay(this.#attempt - 1, Math.random()));
  }

  #take(text: string) {
    const told = read(text);
    if (!told) return;
    if ('streaming' in told) {
      const isAnother = told.streaming.restarted || (this.#epoch !== null && told.epoch !== this.#epoch);
      this.#epoch = told.epoch;
      if (isAnother || this.#next === null) this.#next = isAnother ? 0 : told.streaming.next_seq;
      this.#attempt = 0;
      this.listener.state?.('live');
      if (isAnother) this.listener.gap?.({ restarted: true });
    } else if ('lost' in told) {
      this.listener.gap?.({ lost: told.lost });
    } else if ('event' in told) {
      this.#next = Math.max(this.#next ?? 0, told.event.seq + 1);
      this.#waiting.push(told.event);
      if (this.#waiting.length > MAX_WAITING) this.#dropped += this.#waiting.splice(0, MAX_WAITING / 2).length;
      this.#flushSoon();
    }
  }

  #flushSoon() {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    const flush = () => {
      this.#isFlushing = false;
      if (this.#isStopped) return;
      const batch = this.#waiting;
      this.#waiting = [];
      if (this.#dropped > 0) this.listener.gap?.({ lost: this.#dropped });
      this.#dropped = 0;
      this.listener.events(batch);
    };
    // A page in the background has no frames.
    if (document.hidden) setTimeout(flush, 250);
    else requestAnimationFrame(flush);
  }
}
