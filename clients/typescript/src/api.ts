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
    /** Its id: the two names in the path of the route that answers it. */
    id: string;
    payload?: unknown;
    question: string;
    run: string;
    run_id?: string;
    since: string;
    tid: number;
  }>;
};

export type AttributeFilters = string;

/** Attributes by name. A value is a text of at most 1024 bytes, a whole number of 64 bits, a finite number with a point or an exponent, a flag, or a moment as {"time": "2026-11-05T09:41:00Z"}. */
export type Attributes = Record<string, string | number | number | boolean | {
  time: Moment;
}>;

/** The bytes as the run wrote them. */
export type Bytes = unknown;

/** An answer that replaces the parent's in a fork. */
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
  /** The step did not happen, and is repeated. */
  again?: true;
  /** The step happened, with this result. */
  done?: unknown;
  /** The step failed, with this message. */
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
  /** The number that match the filter. */
  matched: number;
  /** Pass it as `before` to get the next page. */
  next: number | null;
  /** The number of all of them in the run. */
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
  /** The full text of the error. */
  text: string;
  /** The stack, innermost call last. */
  trace: Array<string>;
};

export type Fork = {
  /** Steps that it may do; `*` for all. */
  allow?: Array<string>;
  /** Whether the answer may have another shape. */
  as_is?: boolean;
  /** The record up to which they are the same. */
  at: number;
  /** The message of an error that replaces the answer in that record. */
  error?: string;
  id?: Name;
  /** A value that replaces the answer in that record. */
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

/** A moment in UTC, with any precision. */
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

/** Why the request was refused (RFC 9457). */
export type Problem = {
  code: string;
  /** The next step. */
  next: string;
  status: number;
  /** What happened. */
  title: string;
  type: string;
};

export type Prune = {
  /** Compact runs that ended longer ago than this. */
  compact_after?: Age;
  /** Only report what would be done. */
  dry_run?: boolean;
  /** Keep this many runs. */
  keep?: number;
  /** Remove runs until the others have at most this size. */
  max_size?: Size;
  /** Remove runs that ended longer ago than this. */
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
  /** The number that match the filter; null if there are too many records to search. */
  matched: number | null;
  /** Whether more records exist already. */
  more: boolean;
  /** Where to continue: pass it as `from`, or as `before` if the order is `desc`. Null: there are no more. */
  next: number | null;
  /** Whether the run is finished. */
  over: boolean;
  records: Array<Record<string, unknown>>;
  /** The number of all of them in the run. */
  total: number;
  unread: Unread;
};

export type RunDetail = RunSummary & {
  /** External promises that are not settled yet. */
  promises?: Array<string>;
  task_list?: Array<{
    /** The source line where it waits. */
    at?: string;
    name?: string;
    state: string;
    tid: number;
    waits_for?: string;
  }>;
  /** Its result, if it completed. */
  value?: unknown;
};

export type RunPage = {
  /** Pass it as `after` to get the next page. */
  next?: string;
  runs: Array<RunSummary>;
  /** The number of all runs that match. */
  total: number;
};

export type RunSummary = {
  attributes?: Attributes;
  /** When it fails if it has not ended, RFC 3339. */
  deadline?: string;
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
  /** Its tags, in order. */
  tags?: Array<string>;
  /** Unfinished tasks. */
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
  /** The value. */
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
  /** Why the log cannot be written any more, if it has failed. */
  failed?: null | Problem;
  functions: Array<{
    /** Its documentation. */
    doc: string | null;
    /** The JSON Schema (2020-12) of the input, if there is one. */
    input: unknown;
    language: string;
    name: string;
    /** The input in the notation of its language: the type of the value in Rust, the parameters in Python. */
    takes: string | null;
  }>;
  /** Bytes, numbers, and times in seconds. */
  limits: Record<string, number>;
  /** The number of live runs. */
  live: number;
  paused: Array<{
    code: string;
    message: string;
    run: string;
  }>;
  pid: number;
  /** When the daemon started, RFC 3339. */
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
  /** The number of runs that were not checked, because that would take too long. */
  left_out: number;
  /** The number of runs that were checked. */
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
    /** The state of a step: kind, attempt, state and retry_at. */
    step: Record<string, unknown> | null;
    tid: number;
    /** A description. */
    what: string;
  }>;
  /** The number of all of them, listed or not. */
  total: number;
  /** Turns that took so long that no other task could run, latest first. During such a turn the waiting tasks are not known, and no run is checked. */
  turns: Array<{
    /** The line of the last call before, or where the task was spawned. */
    at: string | null;
    /** Whether the turn has ended. */
    is_over: boolean;
    /** The name of the task, or what the code outside turns does. */
    name: string | null;
    run: string | null;
    /** How long the turn took, or has taken so far. */
    seconds: number;
    /** RFC 3339. */
    since: string;
    /** 0 for code outside turns. */
    tid: number;
  }>;
};

export type Submit = {
  attributes?: Attributes;
  /** When the run fails if it has not ended: a moment in the future, or a duration from its start, as text or as a number of seconds. */
  deadline?: string | Moment | number;
  function: Name;
  /** An id that you choose; without it, and without an Idempotency-Key, one is generated. */
  id?: Name;
  /** The input of the function. */
  input?: unknown;
  /** Tags of the run. */
  tags?: Array<Tag>;
};

export type Submitted = {
  id: string;
  new: boolean;
  uuid: string;
};

/** At most 128 bytes, without white space at its ends. */
export type Tag = string;

export type Tasks = {
  /** The record. */
  at: number;
  generation: number;
  is_over: boolean;
  /** The last record. */
  last: number;
  /** Pass it as `after` to get the next ones. */
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
    /** Progress is reported in events. */
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
      /** Whether its task has continued since, and may have withdrawn it. */
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
      /** A description. */
      what: string;
    }>;
  }>;
  /** The number of tasks, listed or not. */
  total: number;
  unread: Unread;
};

export type Text = string;

export type Tids = string;

export type Timeline = {
  begin: number;
  /** The moment of the last record, or now if the run is not finished, in microseconds. */
  end: number;
  is_over: boolean;
  lanes: Array<{
    /** From, to (null: it continues), what (run, ready, sleep, effect, join, promise, message, approval, lock, io, other, mixed), the record it began with. */
    slices: Array<Array<unknown>>;
    tid: number;
  }>;
  /** The last record. */
  last: number;
  /** RFC 3339: what moments are counted from. */
  started: string;
  unread: Unread;
};

/** Why the rest cannot be read, if the run is damaged. */
export type Unread = string | null;

export type Uuid = string;

/** Any JSON. */
export type Value = unknown;
