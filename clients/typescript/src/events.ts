// Live events as an async iterator that continues after the connection or the daemon was lost, and says what was missed.

import { LostDaemonError, OldDaemonError, TiffanyError, ofProblem } from "./errors.js";
import { type Ask, type Http, sleep } from "./http.js";

/** One event of the activity log. */
export interface Activity {
  seq: number;
  ts: string;
  /** The UUID of the run. */
  task_id: string;
  /** The number of the task; absent for an event about the run as a whole. */
  tid?: number;
  stage: string;
  message: string;
  /** It happened before, and happens again because the run is resumed. */
  ghost: boolean;
  cut?: number;
  data?: Record<string, unknown>;
}

/** What comes of a stream. */
export type Item =
  | { type: "event"; event: Activity }
  /** So many events before the next one are gone, because this reader was too slow or came too late. */
  | { type: "lost"; count: number }
  /** Another process serves the events now; what the one before reported last may be missing, and numbers start again. */
  | { type: "restarted"; epoch: number };

export interface EventOptions {
  /** Only the events of this run, until it has ended. */
  run?: string;
  /** From this event on, as far as it is known (0: from the first). Without it, from now on. */
  from?: number;
  /** Every turn of every task too. */
  all?: boolean;
  /** Whether events that happen again while a run is resumed are wanted. True by default. */
  ghosts?: boolean;
  signal?: AbortSignal;
}

interface Hello {
  epoch: number;
  next_seq: number;
}

const ENDS = new Set(["Completed", "Failed", "Cancelled"]);

export async function* events(http: Http, options: EventOptions): AsyncGenerator<Item, void, undefined> {
  let position: { epoch: number; seq: number } | undefined;
  let until = Date.now() + http.retrySeconds * 1000;
  let why: unknown = "the stream ended";
  for (let pause = 50; ; pause = Math.min(pause * 2, 1000)) {
    try {
      for await (const [name, data] of stream(http, options, position)) {
        if (name === "streaming") {
          const { epoch, next_seq } = data as Hello;
          if (position === undefined) {
            position = { epoch, seq: options.from === undefined ? next_seq - 1 : Math.max(options.from, 1) - 1 };
          } else if (position.epoch !== epoch) {
            position = { epoch, seq: 0 };
            yield { type: "restarted", epoch };
          }
        } else if (name === "activity") {
          const event = data as Activity;
          position = { epoch: position?.epoch ?? 0, seq: event.seq };
          yield { type: "event", event };
          if (options.run !== undefined && event.tid === undefined && !event.ghost && ENDS.has(event.stage)) return;
        } else if (name === "lost") {
          yield { type: "lost", count: (data as { count: number }).count };
        } else if (name === "failed") {
          throw ofProblem(503, JSON.stringify(data), "the stream");
        }
        until = Date.now() + http.retrySeconds * 1000;
        pause = 50;
      }
    } catch (error) {
      if (options.signal?.aborted) throw options.signal.reason;
      // What the daemon says counts; a connection that broke is opened again.
      if (error instanceof TiffanyError) throw error;
      why = error;
    }
    if (Date.now() >= until) throw new LostDaemonError(http.url, false, why);
    await sleep(pause, options.signal);
  }
}

async function* stream(http: Http, options: EventOptions, position: { epoch: number; seq: number } | undefined): AsyncGenerator<[string, unknown]> {
  const query = new URLSearchParams({ ghosts: String(options.ghosts ?? true) });
  if (options.from !== undefined && position === undefined) query.set("from", String(options.from));
  if (options.all) query.set("all", "true");
  const run = options.run === undefined ? "" : `/runs/${encodeURIComponent(options.run)}`;
  const ask: Ask = { method: "GET", path: `/api/v1${run}/events?${query}`, accept: "text/event-stream", isSafe: true, signal: options.signal };
  if (position !== undefined) ask.headers = { "last-event-id": `${position.epoch}-${position.seq}` };
  const answer = await http.send(ask);
  if (!answer.headers.get("content-type")?.startsWith("text/event-stream") || answer.body === null) throw new OldDaemonError("a stream of events");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const fields = new Map(text.slice(0, end).split("\n").map(field));
        text = text.slice(end + 2);
        const name = fields.get("event");
        if (name !== undefined) yield [name, JSON.parse(fields.get("data") ?? "null")];
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function field(line: string): [string, string] {
  const at = line.indexOf(":");
  return [line.slice(0, at), line.slice(at + 1).trim()];
}
