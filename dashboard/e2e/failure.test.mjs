// A failed run is found from the front page in three clicks, with the reason on the screen.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, eventually, openWindow } from './kit.mjs';

let daemon;
before(async () => {
  daemon = await Daemon.start();
  for (let index = 0; index < 20; index += 1) await daemon.submit('inventory', `fine-${index}`, 2);
  await daemon.submit('banquet', 'banquet-1', 'bearnaise');
  await daemon.reached('banquet-1', 'failed');
  for (let index = 20; index < 60; index += 1) await daemon.submit('inventory', `fine-${index}`, 2);
});
after(() => daemon.stop());

test('in three clicks', async () => {
  const page = await openWindow(daemon);
  await page.goto('/');
  await page.getByRole('button', { name: '1 failed' }).click();
  await page.getByRole('link', { name: 'banquet-1' }).click();
  const why = page.getByRole('region', { name: 'Why it failed' });
  for (const text of ['the bearnaise is burnt', 'TFY0001', 'reduce', 'kitchen.rs:']) await why.getByText(text, { exact: false }).first().waitFor();
  assert.deepEqual((await why.getByRole('listitem').allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim()), ['sauce task 4', 'roast task 3', 'banquet task 1']);

  // From there to the record, and to the attempts of the step.
  await why.getByRole('link', { name: /^Record \d+$/ }).click();
  await page.getByRole('region', { name: /^Record \d+$/ }).getByText('TaskAbort').first().waitFor();
  await page.goBack();
  await why.getByRole('link', { name: 'Step and its attempts' }).click();
  const attempts = page.getByRole('region', { name: /^Step \d+$/ }).getByRole('listitem');
  await attempts.nth(2).waitFor();
  assert.equal(await attempts.count(), 3);
  assert.deepEqual(page.complaints, []);
});

test('the graph shows the way it took', async () => {
  const page = await openWindow(daemon);
  await page.goto('/runs/banquet-1/graph');
  await page.getByRole('button', { name: /^sauce the bearnaise is burnt, task 4, failed/ }).waitFor();
  assert.equal(await page.locator('svg[role=group] path.failure:not(.tip)').count(), 2);
});

test('a link has what is filtered, and Back works', async () => {
  const page = await openWindow(daemon);
  await page.goto('/runs');
  await page.getByRole('button', { name: '1 failed' }).click();
  await page.waitForURL('**/runs?state=failed');
  const again = await openWindow(daemon);
  await again.goto(page.url());
  await again.getByRole('row', { name: /banquet-1/ }).waitFor();
  assert.equal(await again.getByRole('row').count(), 2);
  await page.goBack();
  await page.getByRole('row', { name: /fine-59/ }).waitFor();
  await page.getByRole('searchbox', { name: 'Search' }).fill('fine-7');
  await page.waitForURL('**/runs?text=fine-7');
  await eventually(async () => assert.equal(await page.getByRole('row').count(), 2));
});

test('runs are found by when they began', async () => {
  const page = await openWindow(daemon);
  await page.goto('/runs');
  await page.getByRole('row', { name: /fine-59/ }).waitFor();
  await page.getByRole('combobox', { name: 'Started' }).selectOption('between…');
  await page.getByLabel('Started before').fill('2026-01-01T00:00');
  await page.getByLabel('Started before').blur();
  await page.getByText('No matching runs').waitFor();
  await page.waitForURL(/before=20/);
  await page.getByLabel('Started before').fill('2099-01-01T00:00');
  await page.getByLabel('Started before').blur();
  await page.getByText('61 runs found').waitFor();
  await page.getByLabel('Started from').fill('2098-01-01T00:00');
  await page.getByLabel('Started from').blur();
  await page.getByText('No matching runs').waitFor();
  const again = await openWindow(daemon);
  await again.goto(page.url());
  await again.getByText('No matching runs').waitFor();
  assert.match(await again.getByLabel('Started from').inputValue(), /^2098-01-01T00:00/);
  await again.getByRole('button', { name: 'Show all runs' }).click();
  await again.getByRole('row', { name: /fine-59/ }).waitFor();
  assert.deepEqual([...page.complaints, ...again.complaints], []);
});
