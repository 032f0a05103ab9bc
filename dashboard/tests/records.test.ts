import { describe, expect, it } from 'vitest';
import { answerOf, changed, changeOf, forkableBefore, says } from '../src/lib/records';
import type { LogRecord } from '../src/lib/types';

const record = (type: string, fields: Record<string, unknown> = {}, seq = 9): LogRecord => ({ v: 1, seq, ts: '2026-11-05T09:41:00Z', type, tid: 1, ...fields });

describe('a record', () => {
  it('is an answer that a fork may change, unless another attempt follows', () => {
    expect(answerOf(record('EffectResult', { of: 2, value: 1 }))).toEqual({ kind: 'value', value: 1 });
    expect(answerOf(record('EffectResult', { of: 2, error: { message: 'no', code: 'TFY0001' } }))).toEqual({ kind: 'error', message: 'no [TFY0001]' });
    expect(answerOf(record('EffectResult', { of: 2, error: 'TFY0001', retry_at: '2026-11-05T09:42:00Z' }))).toBeNull();
    expect(answerOf(record('EffectResult', { of: 2, decided: 'again' }))).toBeNull();
    expect(answerOf(record('TaskExit', { value: 1 }))).toBeNull();
  });

  it('says that its answer was changed, when and by whom, as far as that is known', () => {
    const whole = record('ApprovalDecided', { of: 2, value: { choice: 'no', by: 'Ada' }, set: true, set_ts: '2026-11-05T09:41:00Z', set_by: 'root' });
    expect(changeOf(whole)).toEqual({ when: '2026-11-05T09:41:00Z', by: 'root' });
    expect(says(whole)).toMatch(/^\(changed in the fork by root on 2026-11-0[456] \d\d:\d\d:00\)/);
    expect(says(whole)).not.toContain('set');
    expect(changed(changeOf(record('Message', { set: true }))!)).toBe('changed in the fork');
    expect(changeOf(record('Message'))).toBeNull();
  });
});

describe('a finished run', () => {
  it('can be forked up to the record before its last task ended', () => {
    expect(forkableBefore([record('TaskExit', {}, 39), record('TaskAbort', {}, 28)], 40).last).toBe(38);
    expect(forkableBefore([record('TaskExit', {}, 3), record('Compacted', {}, 2)], 3)).toEqual({ last: 0, why: expect.stringContaining('compacted') });
    expect(forkableBefore([], 12)).toEqual({ last: 12, why: null });
  });
});
