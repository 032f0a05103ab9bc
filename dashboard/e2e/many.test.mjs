// A table of very many runs has few rows in the page, loads on as one scrolls, stays where one is, and is live.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { Daemon, eventually, openWindow, PROGRAM } from './kit.mjs';

const MANY = 100_000;
const MAX_ROWS = 80;

let daemon;
before(async () => {
  daemon = await Daemon.start();
  await daemon.end();
  // The same runs over HTTP would take minutes.
  execFileSync(join(dirname(PROGRAM), 'many_runs'), [daemon.dir, String(MANY)], { stdio: 'ignore' });
  await daemon.begin();
});
after(() => daemon.stop());

test('of 100,000 runs only those on the screen are rows, and all are reached', async () => {
  const page = await openWindow(daemon);
  const grid = page.getByRole('grid', { name: 'Runs' });
  const fewRows = async () => assert.ok((await grid.getByRole('row').count()) <= MAX_ROWS, `${await grid.getByRole('row').count()} rows`);
  await page.goto('/runs?sort=id+asc');
  await page.getByText('100,000 runs').waitFor({ timeout: 60_000 });
  await page.getByRole('row', { name: /many-000000/ }).waitFor();
  await grid.focus();
  await eventually(async () => {
    await page.keyboard.press('End');
    await fewRows();
    assert.equal(await page.getByRole('row', { name: /many-099999/ }).count(), 1);
  }, 90_000);
  assert.equal(Number(await grid.getAttribute('aria-rowcount')), MANY + 1);
  await grid.evaluate((box) => (box.scrollTop = box.scrollHeight / 2));
  await page.getByRole('row', { name: /many-050\d\d\d/ }).first().waitFor();
  await fewRows();
  // One more is told of while so many are there.
  await daemon.submit('inventory', 'one-more', 1);
  await page.getByText('100,001 runs').waitFor();
  assert.deepEqual(page.complaints, []);
});
