// The types of the HTTP API, generated from its OpenAPI document: `npm run generate` writes this file.

export type Age = string;

export type Allow = {
  names: Array<string>;
};

export type Answer = {
  answer: unknown;
};

/** As the command line prints it with `--json`. */
export type Anything = unknown;

export type Approvals = {
  approvals: Array<{
    choices: Array<string>;
    /** The two names in the path by which it is answered. */
    id: string;
    payload?: unknown;
    question: string;
    run: string;
    run_id?: string;
    since: string;
    tid: number;
  }>;
};

/** The bytes as the run wrote them. */
export type Bytes = unknown;

/** An answer that a fork was given in place of its parent's. */
export type ChangedAnswer = {
  /** Who changed it, if that is known. */
  by: string | null;
  /** When it was changed, RFC 3339; unknown in logs of earlier versions. */
  when: string | null;
};

export type Decided = {
  by: string;
  choice: string;
  rejected?: boolean;
  why?: unknown;
};

export type Decision = {
  /** It did not happen, and is done again. */
  again?: true;
  /** It happened, and this is its result. */
  done?: unknown;
  /** It did not happen as it should. */
  failed?: string;
  key: string;
};

/** What `tiffany diff --json` prints in lines, as one object. */
export type Diff = {
  a: Record<string, unknown>;
  b: Record<string, unknown>;
  differences: Array<Record<string, unknown>>;
  parting: Record<string, unknown> | null;
  same_records: number;
  summary: Record<string, unknown>;
};

export type Doubts = {
  doubts: Array<{
    attempt: number;
    key: string;
    run: string;
    /** The id of the run. */
    run_id: string | null;
    step: string;
    waits: boolean;
  }>;
};

export type Effects = {
  by_name: Array<{
    attempts: number;
    count: number;
    failed: number;
    name: string;
    seconds: number;
  }>;
  effects: Array<{
    /** In microseconds. */
    at: number;
    attempts: Array<{
      attempt: number;
      begin: number;
      end: number | null;
      error: null | Failure;
      outcome: "ok" | "failed" | "timed_out" | "in_doubt" | "left" | null;
    }>;
    /** Set if the result was changed when this run was forked. */
    changed: null | ChangedAnswer;
    kind: string;
    name: string;
    record: number;
    result_record: number | null;
    state: "queued" | "running" | "retrying" | "refused" | "completed" | "failed" | "left";
    tid: number;
  }>;
  /** How many of them are of the kind that was asked for. */
  matched: number;
  /** Give it as `before` to have the next page. */
  next: number | null;
  /** How many the run has. */
  total: number;
};

/** One event: `streaming` (the epoch and the next number), `activity` (what happened; its id is EPOCH-SEQ), `lost` (how many), `end` (why). Over a WebSocket each is a message: `{"streaming":…}`, `{"event":…}`, `{"lost":N}`. */
export type Events = {
  /** JSON. An epoch and a number are below 2^53, so that every language reads them as they are. */
  data?: string;
  event?: "streaming" | "activity" | "lost" | "end";
  id?: string;
};

export type Failure = {
  /** The line of the call. */
  at: string | null;
  code: string;
  detail: string | null;
  /** The tasks it went through. */
  hops: Array<number>;
  message: string;
  /** The task it came from. */
  origin: number | null;
  /** The line of the program's own code where it was raised. */
  raised_at: string | null;
  /** All of it in words. */
  text: string;
  /** The way there, the innermost last. */
  trace: Array<string>;
};

export type Fork = {
  /** Effects it may do; `*` for all. */
  allow?: Array<string>;
  /** The answer may have another shape. */
  as_is?: boolean;
  /** The record up to which they are the same. */
  at: number;
  /** The answer in that record is an error with this message instead. */
  error?: string;
  id?: Name;
  /** The answer in that record is this instead. */
  value?: unknown;
};

export type Forked = {
  id: string;
  uuid: string;
};

export type Hash = string;

export type Health = {
  status: string;
  why?: unknown;
};

export type Html = string;

export type Key = string;

export type Me = {
  by: "loopback" | "token" | "certificate";
  name: string;
  role: "viewer" | "operator" | "admin";
};

export type Message = {
  message: unknown;
  name: Name;
};

/** In UTC, as exact as one likes. */
export type Moment = string;

export type Name = string;

export type Outcome = {
  /** Why it failed or does not continue, in short. */
  error?: {
    code?: string;
    message?: string;
  };
  /** The whole error, as the log has it. */
  failure?: Record<string, unknown>;
  function: string;
  id: string;
  state: string;
  uuid: string;
  /** What it completed with, in the form of the codec of its language. */
  value?: unknown;
};

export type Planned = {
  compact: Array<Record<string, unknown>>;
  done?: null | Pruned;
  remove: Array<Record<string, unknown>>;
};

/** Why it was refused (RFC 9457). */
export type Problem = {
  code: string;
  /** What to do. */
  next: string;
  status: number;
  /** What happened. */
  title: string;
  type: string;
};

export type Prune = {
  /** Compact runs that ended longer ago. */
  compact_after?: Age;
  /** Only tell what would be done. */
  dry_run?: boolean;
  /** Keep so many. */
  keep?: number;
  /** Until the others have so much. */
  max_size?: Size;
  /** Remove runs that ended longer ago. */
  older_than?: Age;
  state?: Array<"completed" | "failed" | "cancelled">;
};

export type Pruned = {
  bytes: number;
  compacted: number;
  refused?: Array<Record<string, unknown>>;
  removed: number;
  unchanged?: number;
};

export type Question = {
  input?: unknown;
};

export type Reason = {
  /** The reason, which is recorded. */
  why?: string;
};

/** One event: `record` (its id is its number), `error` (why there are no more), `end` (why). */
export type RecordEvent = {
  /** JSON. */
  data?: string;
  event?: "record" | "error" | "end";
  id?: string;
};

export type RecordTypes = string;

export type Records = {
  /** How many of all are of the kind that was asked for; null if there is too much to look through. */
  matched: number | null;
  /** Whether there are more already. */
  more: boolean;
  /** Where to go on: give it as `from`, or as `before` if the last record is first. Null: that was all. */
  next: number | null;
  /** Whether the run is over. */
  over: boolean;
  records: Array<Record<string, unknown>>;
  /** How many the run has. */
  total: number;
  unread: Unread;
};

export type RunDetail = RunSummary & {
  /** External promises that nobody has settled yet. */
  promises?: Array<string>;
  task_list?: Array<{
    /** The line it waits in. */
    at?: string;
    name?: string;
    state: string;
    tid: number;
    waits_for?: string;
  }>;
  /** What it completed with. */
  value?: unknown;
};

export type RunPage = {
  /** Give it as `after` to have the next page. */
  next?: string;
  runs: Array<RunSummary>;
  /** How many there are in all that were asked for. */
  total: number;
};

export type RunSummary = {
  ended?: string;
  error?: {
    code: string;
    message: string;
  };
  function: string;
  id: string;
  /** What its file says, in a list that asked for it. */
  log?: {
    bytes?: number;
    /** Calls in earlier generations. */
    calls_before?: number;
    /** When it was last written, RFC 3339. */
    changed?: string;
    /** Records and bytes before it was compacted. */
    compacted?: Record<string, unknown> | null;
    generation?: number;
    records?: number;
  };
  parent?: {
    at: number;
    run: string;
  };
  /** RFC 3339. */
  started: string;
  state: "live" | "ending" | "paused" | "held" | "completed" | "failed" | "cancelled" | "damaged" | "removed";
  /** Tasks that are not over. */
  tasks?: number;
  uuid: string;
  /** What they wait for. */
  waits?: Array<string>;
};

export type Says = {
  /** Why. */
  because?: string;
  /** One of the choices. */
  choice?: string;
};

export type SaysNo = {
  /** Why. */
  because?: string;
};

export type Settle = {
  /** The message of the error that its readers get. */
  error?: string;
  /** The run, if it is the promise of a fork. */
  run?: Name;
  /** What it is settled with. */
  value?: unknown;
};

export type Settled = {
  first: boolean;
  promise: string;
};

export type Size = string;

export type States = string;

export type Status = {
  api: string;
  /** The log directory. */
  dir: string;
  /** Why nothing can be written any more, if the log has failed. */
  failed?: null | Problem;
  functions: Array<{
    /** What its author says of it. */
    doc: string | null;
    /** The same as a JSON Schema (2020-12), if there is one. */
    input: unknown;
    language: string;
    name: string;
    /** What it is given, as its language writes it: the type of its one value in Rust, its parameters in Python. */
    takes: string | null;
  }>;
  /** Bytes, numbers, and times in seconds. */
  limits: Record<string, number>;
  /** How many runs go on. */
  live: number;
  paused: Array<{
    code: string;
    message: string;
    run: string;
  }>;
  pid: number;
  /** When the daemon began, RFC 3339. */
  started: string;
  /** Where it is reached. */
  url?: string | null;
  version: string;
  versions: {
    api?: string;
    log?: number;
    tiffany?: string;
  };
};

export type Stuck = {
  /** How many were not, because that would take too long. */
  left_out: number;
  /** How many runs were looked at. */
  looked_at: number;
  stuck: Array<{
    /** The line. */
    at: string;
    function: string;
    id: string;
    kind: "effect" | "promise" | "message" | "lock" | "io" | "other";
    name: string | null;
    /** Of the call. */
    record: number;
    run: string;
    /** How long it has waited. */
    seconds: number;
    /** RFC 3339. */
    since: string;
    /** Where a step stands: kind, attempt, state and retry_at. */
    step: Record<string, unknown> | null;
    tid: number;
    /** In words. */
    what: string;
  }>;
  /** How many there are, told or not. */
  total: number;
  /** Turns that took so long that nothing else went on, the last one first. While one of them does, nothing is known of who waits, and no run is looked at. */
  turns: Array<{
    /** The line of the last call before, or where the task was spawned. */
    at: string | null;
    /** Whether it gave it back. */
    is_over: boolean;
    /** Of the task, or what the code outside turns makes. */
    name: string | null;
    run: string | null;
    /** How long it had its turn, or has had it by now. */
    seconds: number;
    /** RFC 3339. */
    since: string;
    /** 0 for code outside turns. */
    tid: number;
  }>;
};

export type Submit = {
  function: Name;
  /** One of your own; without it, and without an Idempotency-Key, one is made. */
  id?: Name;
  /** What the function is given. */
  input?: unknown;
};

export type Submitted = {
  id: string;
  new: boolean;
  uuid: string;
};

export type Tasks = {
  /** The record. */
  at: number;
  generation: number;
  is_over: boolean;
  /** The last record. */
  last: number;
  /** Give it as `after` to have those that come next. */
  next: number | null;
  /** The moment of the last record, in microseconds since the first. */
  now: number;
  /** RFC 3339: what moments are counted from. */
  started: string;
  tasks: Array<{
    /** In microseconds. */
    begin: number;
    end: number | null;
    error: null | Failure;
    name: string | null;
    parent: number | null;
    /** How far a task is, events tell. */
    progress: null;
    /** The line. */
    spawned_at: string | null;
    state: "new" | "ready" | "waiting" | "completed" | "failed" | "cancelled";
    tid: number;
    waits: Array<{
      /** The line. */
      at: string;
      call: string;
      /** What it waits for: sleep, effect, join, promise, message, approval, lock, io or other. */
      kind: string;
      /** Its task has done something since, and may have taken it back. */
      maybe_over: boolean;
      name: string | null;
      /** The tasks it waits for. */
      on: Array<number>;
      record: number;
      /** In microseconds. */
      since: number;
      step: {
        attempt?: number;
        kind?: string;
        retry_at?: string | null;
        state?: "queued" | "running" | "retrying" | "refused";
      } | null;
      /** In words. */
      what: string;
    }>;
  }>;
  /** How many tasks there are, told or not. */
  total: number;
  unread: Unread;
};

export type Text = string;

export type Tids = string;

export type Timeline = {
  begin: number;
  /** The moment of the last record, or now if the run is not over, in microseconds. */
  end: number;
  is_over: boolean;
  lanes: Array<{
    /** From, to (null: it goes on), what (run, ready, sleep, effect, join, promise, message, approval, lock, io, other, mixed), the record it began with. */
    slices: Array<Array<unknown>>;
    tid: number;
  }>;
  /** The last record. */
  last: number;
  /** RFC 3339: what moments are counted from. */
  started: string;
  unread: Unread;
};

/** Why there is more than can be read, if the run is damaged. */
export type Unread = string | null;

export type Uuid = string;

/** Any JSON. */
export type Value = unknown;
