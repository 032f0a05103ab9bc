// A question is decided in one of two windows, and both know.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, openWindow } from './kit.mjs';

let daemon;
before(async () => (daemon = await Daemon.start()));
after(() => daemon.stop());

test('a question is asked, decided and recorded', async () => {
  const [one, other] = [await openWindow(daemon), await openWindow(daemon)];
  await one.goto('/approvals');
  await one.getByText('No open questions').waitFor();
  await other.goto('/runs');
  await daemon.submit('market', 'market-1', 60);
  const question = one.getByRole('article', { name: 'Buy fish for 60 EUR?' });
  await question.waitFor();
  await question.getByText('"trout"').waitFor();
  await other.getByRole('row', { name: /needs approval.*market-1/ }).waitFor();
  await other.getByRole('link', { name: 'market-1' }).click();
  await other.getByRole('article', { name: 'Buy fish for 60 EUR?' }).waitFor();
  await other.locator('.title').getByText('needs approval').waitFor();

  await question.getByLabel('Reason').fill('half is enough');
  await question.getByRole('button', { name: 'only half' }).click();
  await one.getByText('No open questions').waitFor();
  await other.getByRole('article', { name: 'Buy fish for 60 EUR?' }).waitFor({ state: 'detached' });
  await other.getByText('"bought: only half"').waitFor();

  const { records } = await daemon.ask('GET', '/runs/market-1/records?from=1');
  const decided = records.find((record) => record.type === 'ApprovalDecided');
  assert.match(JSON.stringify(decided), /only half/);
  assert.match(JSON.stringify(decided), /half is enough/);
  assert.deepEqual([...one.complaints, ...other.complaints], []);
});

test('a rejection is the last of the choices', async () => {
  const page = await openWindow(daemon);
  await daemon.submit('market', 'market-2', 9);
  await page.goto('/runs/market-2');
  await page.getByRole('button', { name: 'no', exact: true }).click();
  await page.getByText('"bought: no"').waitFor();
  assert.deepEqual(page.complaints, []);
});

test('long ids and questions stay on the page', async () => {
  const page = await openWindow(daemon, { width: 380 });
  const id = 'x'.repeat(512);
  await daemon.submit('label', id, 'words '.repeat(500));
  await page.goto('/approvals');
  const question = page.getByRole('article');
  await question.getByRole('link', { name: /^x+…$/ }).waitFor();
  assert.equal(await question.getByRole('link').getAttribute('title'), id);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 380);
  const short = (await question.getByRole('heading').innerText()).length;
  await question.getByRole('button', { name: /^Show all 3,\d+ characters$/ }).click();
  const whole = (await question.getByRole('heading').innerText()).length;
  assert.ok(short < 310 && whole > 2900, `${short} then ${whole}`);
  assert.deepEqual(page.complaints, []);
});
