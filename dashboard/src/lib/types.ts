// The types of the daemon's answers, as in /openapi.json. No code here runs.

export type RunState = 'live' | 'ending' | 'paused' | 'held' | 'completed' | 'failed' | 'cancelled' | 'damaged' | 'removed';
export type TaskState = 'new' | 'ready' | 'waiting' | 'completed' | 'failed' | 'cancelled';
export type Role = 'viewer' | 'operator' | 'admin';

export interface Me {
  name: string;
  role: Role;
  by: string;
}

export interface RunSummary {
  uuid: string;
  id: string;
  function: string;
  state: RunState;
  started: string;
  ended?: string;
  error?: { code: string; message: string };
  parent?: { run: string; at: number };
  tasks?: number;
  waits?: string[];
  tags?: string[];
  attributes?: Record<string, AttributeValue>;
  deadline?: string;
}

/** A text, a number, a flag, or a moment. */
export type AttributeValue = string | number | boolean | { time: string };

export interface RunDetail extends RunSummary {
  promises?: string[];
  value?: unknown;
}

export interface RunPage {
  runs: RunSummary[];
  total: number;
  next?: string | null;
}

export interface Wait {
  record: number;
  call: string;
  what: string;
  since: string | number | null;
  at: string | null;
  on: number[];
  step?: unknown;
}

export interface TaskError {
  code: string;
  message: string;
  /** The whole error in words, with its tasks and lines. */
  text?: string;
  /** The task where the error began, and those it passed through. */
  origin: number | null;
  hops?: number[];
  at?: string | null;
  detail?: unknown;
  /** The line of the program's own code where the error was raised, and the traceback. */
  raised_at?: string | null;
  trace?: string[];
}

export interface Task {
  tid: number;
  parent: number | null;
  name: string | null;
  state: TaskState;
  begin: number | null;
  end: number | null;
  spawned_at: string | null;
  waits: Wait[];
  error: TaskError | null;
}

export interface Tasks {
  at: number;
  last: number;
  started: string;
  /** The time of the last record that is included. */
  now: number;
  is_over: boolean;
  generation: number;
  /** The number of all items, included or not. */
  total: number;
  tasks: Task[];
  next?: number | null;
  /** Why the rest of the log cannot be read, if so. */
  unread?: string | null;
}

export type Kind = 'run' | 'ready' | 'sleep' | 'effect' | 'join' | 'promise' | 'message' | 'approval' | 'lock' | 'io' | 'other' | 'mixed';
/** Start, end (null while it lasts), kind, and the record that began it. */
export type Slice = [number, number | null, Kind, number | null];

export interface Lane {
  tid: number;
  slices: Slice[];
}

export interface Timeline {
  begin: number;
  end: number;
  lanes: Lane[];
}

export interface EffectAttempt {
  attempt: number;
  begin: number | null;
  end: number | null;
  outcome: string | null;
  error?: TaskError | null;
}

export interface Effect {
  record: number;
  tid: number;
  name: string;
  kind: string;
  state: string;
  at: number;
  attempts: EffectAttempt[];
  result_record: number | null;
  /** Whether the step's result was changed when this run was forked. */
  changed?: ChangedAnswer | null;
}

/**
 * An answer of a fork that replaces its parent's; logs of earlier versions don't record when and by
 * whom.
 */
export interface ChangedAnswer {
  when: string | null;
  by: string | null;
}

export interface EffectName {
  name: string;
  count: number;
  attempts: number;
  failed: number;
  seconds: number;
}

export interface Effects {
  total: number;
  matched?: number | null;
  effects: Effect[];
  next?: number | null;
  by_name: EffectName[];
}

export interface LogRecord {
  seq: number;
  ts: string;
  type: string;
  tid: number;
  [field: string]: unknown;
}

export interface Records {
  unread?: string | null;
  records: LogRecord[];
  total?: number;
  matched?: number | null;
  next: number | null;
}

export interface StepTask {
  tid: number;
  name: string | null;
  state: string;
  spawned_at: string | null;
  waits_for: string | null;
  waits_at: string | null;
  error: { message?: string } | null;
  /** The store of the task, as its language formats the values. */
  store: Record<string, string>;
  frames: { function: string; file: string; line: number; locals: Record<string, string> }[];
}

export interface Step {
  record: number;
  records: number;
  line: LogRecord | null;
  tasks: StepTask[];
}

export interface Approval {
  id: string;
  run: string;
  run_id?: string;
  tid: number;
  question: string;
  choices: string[];
  payload?: unknown;
  since?: string;
  until?: string;
}

export interface Doubt {
  key: string;
  run: string;
  run_id?: string | null;
  step: string;
  attempt: number;
  waits: boolean;
}

export interface StuckTask {
  run: string;
  id: string;
  function: string;
  tid: number;
  name: string | null;
  kind: string;
  what: string;
  at: string;
  record: number;
  step: { state: string; attempt: number } | null;
  since: string;
  seconds: number;
}

/** A turn so long that it blocked everything else. */
export interface LongTurn {
  run: string | null;
  tid: number;
  name: string | null;
  at: string | null;
  since: string;
  seconds: number;
  is_over: boolean;
}

/** Stuck tasks, the longest wait first; turns with the latest first. */
export interface StuckTasks {
  stuck: StuckTask[];
  total: number;
  looked_at: number;
  left_out: number;
  turns: LongTurn[];
}

export interface FunctionInfo {
  name: string;
  language?: string | null;
  input?: Schema | null;
  /** The type of the function's input in its language, if it is known. */
  takes?: string | null;
  doc?: string | null;
}

export interface Status {
  pid: number;
  version: string;
  functions: (FunctionInfo | string)[];
  live: number;
  paused: { run: string; code: string; message: string }[];
  failed: Problem | null;
  limits?: Record<string, unknown>;
  dir?: string;
  started?: string;
  versions?: Record<string, string>;
}

/** The part of JSON Schema that forms support. */
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  enum?: unknown[];
  const?: unknown;
  oneOf?: Schema[];
  default?: unknown;
  items?: Schema;
  anyOf?: Schema[];
  minimum?: number;
  maximum?: number;
  additionalProperties?: boolean | Schema;
}

export interface Problem {
  title: string;
  status?: number;
  code: string;
  next: string;
}

export interface Activity {
  seq: number;
  ts: string;
  task_id: string;
  tid?: number;
  stage: string;
  message: string;
  ghost: boolean;
  cut?: number;
  data?: Record<string, unknown>;
}

export interface DiffSide {
  at: string | null;
  record: number;
  task: number;
  text: string;
  type: string;
}

export interface Change {
  path: string;
  a: unknown;
  b: unknown;
}

export interface Difference {
  kind: string;
  name: string | null;
  call: number | null;
  task: { a: number | null; b: number | null };
  a: DiffSide | null;
  b: DiffSide | null;
  changes: Change[];
  more_changes: number;
}

export interface DiffRun {
  run: string;
  id: string;
  function: string;
  records: number;
  is_over: boolean;
}

export interface Diff {
  a: DiffRun;
  b: DiffRun;
  parting: { a: DiffSide | null; b: DiffSide | null; changes: Change[] } | null;
  same_records: number;
  differences: Difference[];
  summary: { same: boolean; differences: number; tasks: number; differing_tasks: number; told: number };
}
