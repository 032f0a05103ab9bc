// The page stays small: its code, gzipped.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';

test('the code is under 120 kB', () => {
  const sizes = ['app.js', 'app.css', 'index.html'].map((name) => gzipSync(readFileSync(resolve(import.meta.dirname, '../../crates/daemon/assets', name)), { level: 9 }).length);
  const all = sizes.reduce((sum, size) => sum + size, 0);
  console.log(`ui_size ${(all / 1000).toFixed(1)} kB`);
  assert.ok(all < 120_000, `${all} bytes`);
});
