// The measures of the page, shortened, so that they stay within bounds that make sense beside other work and on a build that is not optimised.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { all, QUICK } from './measures.mjs';
import { json, median } from './report.mjs';

/** A tenth of the tasks on a build that is ten times as slow. The others are as they must be, with room for a machine that has other work. */
const BOUNDS = { ui_size: 120, ui_open: 3000, ui_scroll: 200, ui_live: 100, ui_memory: 80 };

test('the page is quick, smooth, live and small', { timeout: 180_000 }, async () => {
  const seen = [];
  for await (const measure of all(QUICK)) {
    console.log(json(measure));
    const is = median(measure.samples.map((sample) => sample.value));
    assert.ok(is <= BOUNDS[measure.name], `${measure.name} is ${is} ${measure.unit}`);
    if (measure.name === 'ui_memory') {
      const { half, grown } = measure.samples[0].beside;
      assert.ok(grown <= Math.max(4, half / 4), `the heap grew by ${grown} MB after the first half, which left ${half} MB`);
    }
    seen.push(measure.name);
  }
  assert.deepEqual(seen, Object.keys(BOUNDS));
});
