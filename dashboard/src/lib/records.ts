// Records of the log as one line each, and their types.
import { brief, oneLine, place } from './text';
import { day, moment } from './time';
import type { ChangedAnswer, LogRecord } from './types';

/** Types that are requested together. */
export const TYPE_GROUPS: { name: string; types: string[] }[] = [
  { name: 'Tasks', types: ['TaskSpawn', 'TaskExit', 'TaskAbort', 'TaskCancel'] },
  { name: 'Calls', types: ['TaskYield', 'TaskWake'] },
  { name: 'Steps', types: ['EffectStart', 'EffectCheckpoint', 'EffectResult', 'EffectRefused', 'EffectAllowed'] },
  { name: 'From outside', types: ['ApprovalDecided', 'ApprovalWithdrawn', 'PromiseSettled', 'Message'] },
  { name: 'Notes', types: ['Attributes', 'InstructionStart', 'LLMPlan', 'StepStart', 'ToolResult', 'PatchPreview', 'Commit', 'TaskComplete'] },
  { name: 'Log', types: ['RunStart', 'Snapshot', 'RunHeld', 'RunReleased', 'ShutdownMarker', 'Forked', 'Compacted', 'Captured'] },
];

const SHOWN_ELSEWHERE = new Set(['v', 'seq', 'ts', 'type', 'task_id', 'tid', 'gen', 'crc', 'at', 'call', 'name', 'error', 'seed', 'set', 'set_ts', 'set_by']);

export function isFailure(record: LogRecord): boolean {
  return record.error !== undefined && record.error !== null;
}

function errorText(error: unknown): string {
  if (typeof error === 'string') return error;
  const { message, code } = (error ?? {}) as { message?: string; code?: string };
  return [message ?? brief(error), code ? `[${code}]` : ''].filter(Boolean).join(' ');
}

/** Returns how the answer in a record was changed when its run was forked; null if it was not. */
export function changeOf(record: LogRecord): ChangedAnswer | null {
  if (record.set === undefined) return null;
  const text = (value: unknown) => (typeof value === 'string' ? value : null);
  return { when: text(record.set_ts), by: text(record.set_by) };
}

/** Describes a changed answer in words. */
export function changed({ when, by }: ChangedAnswer): string {
  return ['changed in the fork', by ? `by ${oneLine(by, 80)}` : '', when ? `on ${day(moment(when))}` : ''].filter(Boolean).join(' ');
}

/** Describes a record, without its number, time, task and type. */
export function says(record: LogRecord): string {
  const parts: string[] = [];
  const change = changeOf(record);
  if (change) parts.push(`(${changed(change)})`);
  if (typeof record.call === 'string') parts.push(record.call);
  if (typeof record.name === 'string') parts.push(`\`${oneLine(record.name, 80)}\``);
  if (isFailure(record)) parts.push(oneLine(errorText(record.error), 200));
  for (const [name, value] of Object.entries(record)) {
    if (!SHOWN_ELSEWHERE.has(name)) parts.push(`${name}=${brief(value, 120)}`);
  }
  if (typeof record.at === 'string') parts.push(place(record.at));
  return parts.join('  ');
}

const ANSWERS = new Set(['EffectResult', 'ApprovalDecided', 'PromiseSettled', 'Message']);

/**
 * Returns the answer in a record that a fork may change. A failed attempt that is retried, and a
 * decision to run a step again, contain no answer.
 */
export function answerOf(record: LogRecord): { kind: 'value'; value: unknown } | { kind: 'error'; message: string } | null {
  if (!ANSWERS.has(record.type) || record.retry_at !== undefined || record.decided === 'again') return null;
  return isFailure(record) ? { kind: 'error', message: errorText(record.error) } : { kind: 'value', value: record.value ?? null };
}

/** The records of a run that can be forked, and why later ones cannot. */
export interface Forkable {
  /** The last record that can be forked; 0 if none can. */
  last: number;
  why: string | null;
}

/**
 * The types of records after which a fork has nothing left to do: the ends of tasks, and the record
 * of a compacted run.
 */
export const ENDS = 'TaskExit,TaskAbort,TaskCancel,Compacted';

/**
 * Finds the last record that can be forked, from the last two records of a finished run that are
 * among `ENDS`: a fork must have something left to do.
 */
export function forkableBefore([end, before]: readonly LogRecord[], last: number): Forkable {
  if (end?.type === 'Compacted' || before?.type === 'Compacted') return { last: 0, why: 'This run was compacted: its records were removed, so it cannot be forked.' };
  return end ? { last: end.seq - 1, why: `The run ended at record ${end.seq}, so nothing is left to do after that.` } : { last, why: null };
}

/** Returns the record of the call that this record answers. */
export function answers(record: LogRecord): number | null {
  return typeof record.of === 'number' ? record.of : null;
}

/**
 * Finds, in the failed records of a task, newest first, the record of its error and the step that
 * caused it.
 */
export function writtenAbout(records: readonly LogRecord[]): { record: number | null; effect: number | null; step: string | null } {
  const abort = records.find((record) => record.type === 'TaskAbort');
  const result = records.find((record) => record.type === 'EffectResult');
  const call = ((abort ?? result)?.error as { call?: [string, unknown] | null } | undefined)?.call;
  const isOfStep = result !== undefined && (abort === undefined || Boolean(call));
  return { record: abort?.seq ?? result?.seq ?? null, effect: isOfStep ? answers(result) : null, step: isOfStep && call ? String(call[0]) : null };
}
