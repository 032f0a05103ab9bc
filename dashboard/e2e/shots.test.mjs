// The book has a picture of every page, as the tests take it. Pixels are not compared: what is looked at is that no picture is missing, left over or large.
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { BOOK, busyDaemon, NAMES, takeForBook } from './shots.mjs';

const MAX_BYTES = 200_000;
const MAX_TOTAL_BYTES = 3_000_000;

test('every page can be pictured, and the book has each picture', async () => {
  const daemon = await busyDaemon();
  const into = mkdtempSync(join(tmpdir(), 'tiffany-shots-'));
  try {
    assert.deepEqual(await takeForBook(daemon, into), []);
    for (const dir of [into, BOOK]) {
      assert.deepEqual(readdirSync(dir).sort(), NAMES.map((name) => `${name}.png`).sort(), `${dir}: \`npm run shots\` takes the pictures anew`);
      const sizes = NAMES.map((name) => statSync(join(dir, `${name}.png`)).size);
      NAMES.forEach((name, index) => assert.ok(sizes[index] > 5_000 && sizes[index] < MAX_BYTES, `${name}.png has ${sizes[index]} bytes`));
      assert.ok(sizes.reduce((all, size) => all + size, 0) < MAX_TOTAL_BYTES);
    }
    const chapter = readFileSync(resolve(BOOK, '../../dashboard.md'), 'utf8');
    for (const name of NAMES) assert.ok(chapter.includes(`images/dashboard/${name}.png`), `docs/src/dashboard.md does not show ${name}.png`);
  } finally {
    await daemon.stop();
    rmSync(into, { recursive: true, force: true });
  }
});
