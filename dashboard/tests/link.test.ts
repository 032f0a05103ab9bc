import { describe, expect, it } from 'vitest';
import { compareLink, pageOf, runLink, withPatch } from '../src/lib/link';

describe('links', () => {
  it.each([
    ['/', { page: 'runs' }],
    ['/runs', { page: 'runs' }],
    ['/runs/', { page: 'runs' }],
    ['/runs/order-1', { page: 'run', run: 'order-1', tab: 'overview' }],
    ['/runs/a%2Fb/timeline', { page: 'run', run: 'a/b', tab: 'timeline' }],
    ['/runs/%zz', { page: 'run', run: '%zz', tab: 'overview' }],
    ['/runs/order-1/nothing', { page: 'none' }],
    ['/runs/a/records/9', { page: 'none' }],
    ['/compare/a/b', { page: 'compare', left: 'a', right: 'b' }],
    ['/compare/a', { page: 'none' }],
    ['/approvals', { page: 'approvals' }],
    ['/system', { page: 'system' }],
    ['/system/x', { page: 'none' }],
  ])('%s leads to its page', (path, page) => expect(pageOf(path)).toEqual(page));

  it('lead back to what they were made of', () => {
    for (const run of ['order-1', 'a/b', 'ö ? # %', '<i>', '..%2f']) {
      expect(pageOf(new URL(runLink(run, 'graph'), 'http://x').pathname)).toEqual({ page: 'run', run, tab: 'graph' });
      expect(pageOf(new URL(compareLink(run, 'b'), 'http://x').pathname)).toEqual({ page: 'compare', left: run, right: 'b' });
    }
  });

  it('keep what is filtered, and only that', () => {
    const query = new URLSearchParams('state=failed&text=tea&at=4');
    expect(withPatch('/runs', query, { text: '', at: null, function: 'order', since: 3 })).toBe('/runs?function=order&since=3&state=failed');
    expect(withPatch('/runs', query, { state: '', text: '', at: '' })).toBe('/runs');
    expect(query.get('text')).toBe('tea');
  });
});
