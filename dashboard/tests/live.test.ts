import { describe, expect, it } from 'vitest';
import { diffOf, withQuery } from '../src/lib/api';
import { delay, epochOf, read } from '../src/lib/live';
import { restAfter } from '../src/lib/pace';
import { isFailure, says, writtenAbout } from '../src/lib/records';
import type { LogRecord } from '../src/lib/types';

describe('the stream', () => {
  it('keeps all digits of an epoch', () => {
    const told = read('{"streaming":{"epoch":5500287199660079082,"next_seq":1036,"restarted":false}}');
    expect(told).toEqual({ streaming: expect.objectContaining({ next_seq: 1036, restarted: false }) as unknown, epoch: '5500287199660079082' });
    expect(epochOf('{}')).toBeNull();
  });

  it('reads events and what is lost, and nothing else', () => {
    expect(read('{"lost":7}')).toEqual({ lost: 7 });
    expect(read('{"event":{"seq":1}}')).toEqual({ event: { seq: 1 } });
    expect([read('nonsense'), read('{"other":1}')]).toEqual([null, null]);
  });

  it('tries again sooner at first, and never all at once', () => {
    expect([0, 1, 2, 9].map((attempt) => delay(attempt, 1))).toEqual([250, 500, 1000, 8000]);
    expect(delay(3, 0)).toBe(1000);
    expect(delay(3, 0.5)).toBe(1500);
  });

  it('asks less often what takes long', () => {
    expect([restAfter(10, 300), restAfter(500, 300), restAfter(60_000, 300)]).toEqual([300, 2000, 10_000]);
  });
});

describe('requests', () => {
  it('leave out what is empty', () => {
    expect(withQuery('/runs', { state: 'failed', text: '', limit: 0, after: undefined, failed: false })).toBe('/runs?state=failed&limit=0');
    expect(withQuery('/runs', { text: 'a&b=ü' })).toBe('/runs?text=a%26b%3D%C3%BC');
  });

  it('read a diff as lines or as one', () => {
    const lines = [{ a: { id: 'x' }, b: { id: 'y' } }, { parting: null, same_records: 4 }, { difference: { kind: 'call' } }, { difference: { kind: 'end' } }, { summary: { same: false } }];
    const diff = diffOf(lines);
    expect([diff.a.id, diff.same_records, diff.differences.map((one) => one.kind), diff.summary.same]).toEqual(['x', 4, ['call', 'end'], false]);
    expect(diffOf({ ...diff, differences: diff.differences }).differences).toHaveLength(2);
  });
});

describe('records', () => {
  const record = (more: Partial<LogRecord>): LogRecord => ({ v: 1, seq: 4, ts: '2026-11-17T00:00:00Z', type: 'EffectResult', tid: 1, ...more });

  it('say what they are on one line', () => {
    expect(says(record({ type: 'TaskYield', call: 'effect', name: 'a\nb', about: { kind: 'pure' }, at: 'x/y/z.rs:7' }))).toBe('effect  `a↵b`  about={"kind":"pure"}  y/z.rs:7');
    expect(says(record({ error: { message: '\u001b oh', kind: 'Failed' }, of: 2 }))).toBe('\\u{1b} oh  of=2');
    expect([isFailure(record({})), isFailure(record({ error: null })), isFailure(record({ error: {} }))]).toEqual([false, false, true]);
  });

  it('lead from a failure to its step', () => {
    const call = ['reduce', { file: 'k.rs', line: 57 }];
    const written = [record({ seq: 28, type: 'TaskAbort', error: { call } }), record({ seq: 27, of: 13, error: { call } })];
    expect(writtenAbout(written)).toEqual({ record: 28, effect: 13, step: 'reduce' });
    expect(writtenAbout([record({ seq: 5, type: 'TaskAbort', error: { call: null } })])).toEqual({ record: 5, effect: null, step: null });
    expect(writtenAbout([])).toEqual({ record: null, effect: null, step: null });
  });
});

