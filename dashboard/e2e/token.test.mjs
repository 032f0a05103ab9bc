// Tokens and roles: nobody sees anything without a token, and only what a role may do can be clicked.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, openWindow, violations } from './kit.mjs';

let daemon, viewer, operator, asOperator;
before(async () => {
  daemon = await Daemon.start({ config: 'require_token = true\n' });
  viewer = daemon.token('vera', 'viewer');
  operator = daemon.token('otto', 'operator');
  asOperator = { authorization: `Bearer ${operator}` };
  await daemon.ask('POST', '/runs', { function: 'market', id: 'market-1', input: 60 }, asOperator);
});
after(() => daemon.stop());

async function enter(page, token) {
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

test('a viewer looks, live, and can do nothing', async () => {
  const page = await openWindow(daemon);
  await page.goto('/runs/market-1');
  await page.getByRole('heading', { name: 'This daemon requires a token' }).waitFor();
  assert.equal(await page.getByLabel('Token').evaluate((node) => node === document.activeElement), true);
  assert.deepEqual(await violations(page), []);
  await enter(page, 'tfy_wrong');
  await page.getByRole('alert').getByText('TFY0171').waitFor();
  await enter(page, viewer);
  await page.getByRole('heading', { name: 'market-1' }).waitFor();
  await page.getByText('Deciding requires the role operator.').waitFor();
  for (const name of ['Cancel', 'Fork', 'More', 'yes']) assert.equal(await page.getByRole('button', { name, exact: true }).count(), 0, name);
  await page.getByText('Live', { exact: true }).waitFor();
  await page.goto('/runs');
  await page.getByRole('row', { name: /market-1/ }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Start a run' }).count(), 0);
  await daemon.ask('POST', '/runs', { function: 'inventory', id: 'while-watching', input: 2 }, asOperator);
  await page.getByRole('row', { name: /while-watching/ }).waitFor();
  assert.equal(page.url().includes('tfy_'), false);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  assert.deepEqual(page.complaints, []);
});

test('an operator starts a run and decides', async () => {
  const page = await openWindow(daemon);
  await page.goto('/approvals');
  await enter(page, operator);
  await page.getByRole('button', { name: 'yes' }).click();
  await page.getByText('No open questions').waitFor();
  await page.goto('/runs');
  await page.getByRole('button', { name: 'Start a run' }).click();
  const dialog = page.getByRole('dialog', { name: 'Start a run' });
  await dialog.getByLabel('Function').selectOption('inventory');
  await dialog.getByLabel('Input').fill('{');
  await dialog.getByRole('button', { name: 'Start' }).click();
  await dialog.getByText('not valid JSON', { exact: false }).waitFor();
  await dialog.getByLabel('Input').fill('3');
  await dialog.getByLabel('Id').fill('by-hand');
  await dialog.getByRole('button', { name: 'Start' }).click();
  await page.getByRole('heading', { name: 'by-hand' }).waitFor();
  await page.locator('.title').getByText('completed').waitFor();
  assert.equal(await page.getByRole('menuitem', { name: 'Remove…' }).count(), 0);
  assert.deepEqual(page.complaints, []);
});
