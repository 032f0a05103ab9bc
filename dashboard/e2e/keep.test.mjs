// What is over is compacted and removed from the page, by those who may.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, openWindow } from './kit.mjs';

let daemon;
before(async () => {
  daemon = await Daemon.start();
  for (const id of ['old-1', 'old-2']) {
    await daemon.submit('inventory', id, 20);
    await daemon.reached(id, 'completed');
  }
  await daemon.submit('market', 'young', 5);
});
after(() => daemon.stop());

async function choose(page, what) {
  await page.getByRole('button', { name: 'More' }).click();
  await page.getByRole('menuitem', { name: what }).click();
}

test('a run that is over is compacted: what came of it stays', async () => {
  const page = await openWindow(daemon);
  await page.goto('/runs/old-1');
  await page.getByRole('tab', { name: /Records\s*\d\d/ }).waitFor();
  await choose(page, 'Compact…');
  const dialog = page.getByRole('dialog', { name: 'Compact this run?' });
  await dialog.getByRole('button', { name: 'Compact' }).click();
  await page.getByText(/^Compacted: .* free/).waitFor();
  await page.getByRole('region', { name: 'Value' }).getByText('20').waitFor();
  await page.goto('/runs/old-1/records');
  await page.getByText(/^[1-3] records?$/).waitFor();
  assert.deepEqual(page.complaints, []);
});

test('a run that is over is removed, and gone in another window', async () => {
  const [page, other] = [await openWindow(daemon), await openWindow(daemon)];
  await other.goto('/runs');
  await other.getByRole('row', { name: /old-2/ }).waitFor();
  await page.goto('/runs/old-2');
  await choose(page, 'Remove…');
  await page.getByRole('dialog', { name: 'Remove this run?' }).getByRole('button', { name: 'Remove' }).click();
  await page.waitForURL('**/runs');
  await page.getByRole('row', { name: /old-1/ }).waitFor();
  assert.equal(await page.getByRole('row', { name: /old-2/ }).count(), 0);
  await other.getByRole('row', { name: /old-2/ }).waitFor({ state: 'detached' });
  await page.goto('/runs/old-2');
  await page.getByRole('alert').getByText(/TFY0041|TFY0130/).waitFor();
  assert.deepEqual([...page.complaints, ...other.complaints], []);
});

test('what goes on can be neither', async () => {
  const page = await openWindow(daemon);
  await page.goto('/runs/young');
  await page.getByRole('button', { name: 'More' }).click();
  await page.getByRole('menuitem', { name: 'Cancel…' }).waitFor();
  for (const what of ['Compact…', 'Remove…']) assert.equal(await page.getByRole('menuitem', { name: what }).count(), 0, what);
});
