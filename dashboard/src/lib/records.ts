// A record of the log as one line, and which types there are.
import { brief, oneLine, place } from './text';
import type { LogRecord } from './types';

/** Types that are asked for together. */
export const TYPE_GROUPS: { name: string; types: string[] }[] = [
  { name: 'Tasks', types: ['TaskSpawn', 'TaskExit', 'TaskAbort', 'TaskCancel'] },
  { name: 'Calls', types: ['TaskYield', 'TaskWake'] },
  { name: 'Effects', types: ['EffectStart', 'EffectCheckpoint', 'EffectResult', 'EffectRefused', 'EffectAllowed'] },
  { name: 'From outside', types: ['ApprovalDecided', 'ApprovalWithdrawn', 'PromiseSettled', 'Message'] },
  { name: 'The log', types: ['RunStart', 'Snapshot', 'ShutdownMarker', 'Forked', 'Compacted', 'Captured'] },
];

const SHOWN_ELSEWHERE = new Set(['v', 'seq', 'ts', 'type', 'task_id', 'tid', 'gen', 'crc', 'at', 'call', 'name', 'error', 'seed']);

export function isFailure(record: LogRecord): boolean {
  return record.error !== undefined && record.error !== null;
}

function errorText(error: unknown): string {
  if (typeof error === 'string') return error;
  const { message, code } = (error ?? {}) as { message?: string; code?: string };
  return [message ?? brief(error), code ? `[${code}]` : ''].filter(Boolean).join(' ');
}

/** What a record says, beside its number, time, task and type. */
export function says(record: LogRecord): string {
  const parts: string[] = [];
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

/** The answer that a record has, which a fork can have another one in place of. */
export function answerOf(record: LogRecord): { kind: 'value'; value: unknown } | { kind: 'error'; message: string } | null {
  if (!ANSWERS.has(record.type)) return null;
  return isFailure(record) ? { kind: 'error', message: errorText(record.error) } : { kind: 'value', value: record.value ?? null };
}

/** The record of the call that this one answers. */
export function answers(record: LogRecord): number | null {
  return typeof record.of === 'number' ? record.of : null;
}

/** What the failed records of a task, newest first, say of where its error is written, and of the step it came from. */
export function writtenAbout(records: readonly LogRecord[]): { record: number | null; effect: number | null; step: string | null } {
  const abort = records.find((record) => record.type === 'TaskAbort');
  const result = records.find((record) => record.type === 'EffectResult');
  const call = ((abort ?? result)?.error as { call?: [string, unknown] | null } | undefined)?.call;
  const isOfStep = result !== undefined && (abort === undefined || Boolean(call));
  return { record: abort?.seq ?? result?.seq ?? null, effect: isOfStep ? answers(result) : null, step: isOfStep && call ? String(call[0]) : null };
}
