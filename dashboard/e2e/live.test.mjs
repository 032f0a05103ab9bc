// What is on the screen is what is so: without a reload, through a restart, and in two windows.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, eventually, openWindow } from './kit.mjs';

let daemon;
before(async () => (daemon = await Daemon.start()));
after(() => daemon.stop());

test('a run appears, goes on and ends without a reload', async () => {
  const page = await openWindow(daemon);
  await page.goto('/');
  await page.getByText('No runs yet').waitFor();
  await page.evaluate(() => (globalThis.wasHere = true));
  await daemon.submit('dinner', 'dinner-1', 2);
  await page.getByRole('row', { name: /dinner-1/ }).waitFor();
  await page.getByRole('row', { name: /dinner-1.*completed|completed.*dinner-1/ }).waitFor();
  assert.equal(await page.evaluate(() => globalThis.wasHere), true);
  assert.deepEqual(page.complaints, []);
});

test('the progress of a run is seen as it is made', async () => {
  const page = await openWindow(daemon);
  await daemon.submit('dinner', 'dinner-long', 400);
  await page.goto('/runs/dinner-long');
  const far = async () => Number((await page.getByRole('progressbar', { name: 'Progress of task 2' }).getAttribute('value')) ?? 0);
  await page.getByRole('progressbar', { name: 'Progress of task 2' }).waitFor();
  const first = await far();
  await eventually(async () => assert.ok((await far()) > first));
  await page.getByRole('tab', { name: 'Output' }).click();
  await page.getByText(/soup: turn \d+ of 400/).first().waitFor();
  await daemon.ask('POST', '/runs/dinner-long/cancel', {});
  await page.locator('.title').getByText('cancelled').waitFor();
  assert.deepEqual(page.complaints, []);
});

test('after a restart of the daemon the page comes back and has caught up', async () => {
  const page = await openWindow(daemon);
  await page.goto('/runs');
  await page.getByText('Live', { exact: true }).waitFor();
  await daemon.end('SIGKILL');
  await page.getByText('Reconnecting…').waitFor();
  await daemon.begin();
  await daemon.submit('market', 'while-away', 3);
  await page.getByText('Live', { exact: true }).waitFor();
  await page.getByRole('row', { name: /while-away/ }).waitFor();
  await page.getByText('The daemon was restarted.').waitFor();
  await daemon.submit('inventory', 'after-all', 3);
  await page.getByRole('row', { name: /after-all/ }).waitFor();
  assert.deepEqual(page.complaints, []);
});
