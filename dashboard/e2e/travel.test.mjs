// The run at any record, a fork from there, and what is different.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, eventually, openWindow } from './kit.mjs';

let daemon;
before(async () => {
  daemon = await Daemon.start();
  await daemon.submit('banquet', 'banquet-1', 'bearnaise');
  await daemon.reached('banquet-1', 'failed');
});
after(() => daemon.stop());

test('the tasks are as they were at a record', async () => {
  const page = await openWindow(daemon);
  await page.goto('/runs/banquet-1');
  const tree = page.getByRole('treegrid', { name: 'Tasks' });
  await tree.getByRole('row', { name: /sauce.*failed/ }).waitFor();
  await page.getByRole('slider', { name: 'Record' }).fill('9');
  await page.waitForURL('**/runs/banquet-1?at=9');
  await tree.getByRole('row', { name: /roast.*waiting/ }).waitFor();
  assert.equal(await tree.getByRole('gridcell', { name: 'failed', exact: true }).count(), 0);
  await page.getByText('Record 9', { exact: true }).waitFor();
  await page.keyboard.press(']');
  await page.waitForURL('**/runs/banquet-1?at=10');
  await page.getByRole('button', { name: 'Back to now' }).click();
  await tree.getByRole('row', { name: /sauce.*failed/ }).waitFor();
  assert.deepEqual(page.complaints, []);
});

test('a look inside runs the code up to there', async () => {
  const page = await openWindow(daemon);
  await page.goto('/runs/banquet-1?at=9&task=3');
  await page.getByRole('button', { name: 'Store, stack and variables' }).click();
  await page.getByRole('heading', { name: 'Stack' }).waitFor();
  await page.getByText(/Waiting at .*kitchen\.rs:\d+/).waitFor();
  assert.deepEqual(page.complaints, []);
});

test('a fork goes its own way, and the two are compared', async () => {
  const page = await openWindow(daemon);
  const { records } = await daemon.ask('GET', '/runs/banquet-1/records?from=1&limit=1000');
  const answer = records.find((record) => record.type === 'EffectResult' && record.error && record.retry_at === undefined);
  await page.goto(`/runs/banquet-1/records?record=${answer.seq}`);
  await page.getByRole('button', { name: 'Fork here' }).click();
  const dialog = page.getByRole('dialog', { name: 'Fork' });
  // One sees what is to be another.
  await dialog.getByText(/the answer is the error the .*is burnt/).waitFor();
  await dialog.getByRole('spinbutton', { name: 'Record' }).fill('1');
  await dialog.getByText('RunStart is not an answer').waitFor();
  assert.equal(await dialog.getByLabel('Answer in that record').count(), 0);
  const value = records.find((record) => record.type === 'EffectResult' && record.value === 1);
  await dialog.getByRole('spinbutton', { name: 'Record' }).fill(String(value.seq));
  await dialog.getByText('the answer is 1').waitFor();
  await dialog.getByLabel('Answer in that record').selectOption('value');
  assert.equal(await dialog.getByLabel('Value').inputValue(), '1');
  await dialog.getByRole('spinbutton', { name: 'Record' }).fill(String(answer.seq));
  await dialog.getByText(/the answer is the error/).waitFor();
  await dialog.getByLabel('Answer in that record').selectOption('value');
  await dialog.getByLabel('Value').fill('"butter"');
  await dialog.getByLabel('Steps it may run').fill('*');
  await dialog.getByLabel('ID').fill('banquet-mended');
  await dialog.getByRole('button', { name: 'Fork', exact: true }).click();
  await page.getByRole('heading', { name: 'banquet-mended' }).waitFor();
  await page.locator('.title').getByText('completed').waitFor();
  // Nobody decided so: it was changed, and the page says by whom.
  const changed = /changed in the fork by local on 20\d\d-/;
  await page.getByRole('link', { name: changed }).click();
  const shown = page.getByRole('region', { name: `Record ${answer.seq}` });
  await shown.getByText(changed).waitFor();
  await shown.getByRole('link', { name: 'the original' }).click();
  await page.getByRole('heading', { name: 'banquet-1' }).waitFor();
  await page.getByRole('region', { name: `Record ${answer.seq}` }).waitFor();
  assert.equal(await page.getByText(changed).count(), 0);
  await page.goto(`/runs/banquet-mended/effects?effect=${answer.of}`);
  await page.getByRole('region', { name: `Step ${answer.of}` }).getByText(changed).waitFor();
  await page.getByRole('link', { name: 'Compare with parent' }).click();
  await page.getByRole('region', { name: 'First difference' }).waitFor();
  await eventually(async () => assert.ok((await page.getByRole('region', { name: 'Differences' }).getByRole('listitem').count()) > 0));
  assert.deepEqual(page.complaints, []);
});

test('the form of a fork begins at the last record that can be forked, and says why later ones cannot', async () => {
  const page = await openWindow(daemon);
  const { records } = await daemon.ask('GET', '/runs/banquet-1/records?from=1&limit=1000');
  const end = records.findLast((record) => ['TaskExit', 'TaskAbort', 'TaskCancel'].includes(record.type)).seq;
  const dialog = page.getByRole('dialog', { name: 'Fork' });
  const record = dialog.getByRole('spinbutton', { name: 'Record' });
  await page.goto(`/runs/banquet-1/records?record=${records.at(-1).seq}`);
  await page.getByRole('button', { name: 'Fork here' }).click();
  await dialog.getByText(`Record ${records.at(-1).seq} cannot be forked. The run ended at record ${end}`).waitFor();
  assert.equal(await record.inputValue(), String(end - 1));
  await dialog.getByRole('button', { name: 'Close' }).first().click();
  await page.goto('/runs/banquet-1');
  await page.getByRole('button', { name: 'Fork', exact: true }).click();
  await dialog.getByText(`1 to ${end - 1}. The run ended at record ${end}`).waitFor();
  assert.equal(await record.inputValue(), String(end - 1));
  await dialog.getByLabel('ID').fill('banquet-as-is');
  await dialog.getByRole('button', { name: 'Fork', exact: true }).click();
  await page.getByRole('heading', { name: 'banquet-as-is' }).waitFor();
  assert.deepEqual(page.complaints, []);
});

test('a compacted run says that it cannot be forked', async () => {
  const page = await openWindow(daemon);
  await daemon.submit('inventory', 'inventory-compact', 2);
  await daemon.reached('inventory-compact', 'completed');
  await daemon.ask('POST', '/runs/inventory-compact/compact');
  await page.goto('/runs/inventory-compact');
  await page.getByRole('button', { name: 'Fork', exact: true }).click();
  await page.getByRole('dialog', { name: 'Fork' }).getByText('This run was compacted').waitFor();
  assert.deepEqual(page.complaints, []);
});

test('on a phone, a record has its type and then what it says', async () => {
  const page = await openWindow(daemon, { width: 380, height: 800 });
  await page.goto('/runs/banquet-1/records?failed=1');
  const row = page.getByRole('grid', { name: 'Records, newest first' }).getByRole('row', { name: /burnt/ }).first();
  assert.match(await row.innerText(), /TaskAbort the bearnaise is burnt/);
  assert.deepEqual(page.complaints, []);
});

test('a fork that may not do what it needs is allowed to on its page', async () => {
  const page = await openWindow(daemon);
  const fork = await daemon.submit('market', 'market-fork', 9);
  const asked = await eventually(async () => {
    const { records } = await daemon.ask('GET', '/runs/market-fork/records?from=1&limit=100');
    assert.equal(records.at(-1).call, 'approve');
    return records;
  });
  await daemon.ask('POST', `/runs/${fork.uuid}/forks`, { at: asked.at(-1).seq, id: 'market-careful' });
  await page.goto('/approvals');
  await page.getByRole('article').filter({ hasText: 'market-careful' }).getByRole('button', { name: 'yes' }).click();
  await page.goto('/runs/market-careful');
  await page.locator('.title').getByText('paused').waitFor();
  await page.getByText('allow the steps it needs, and it continues').waitFor();
  await page.getByRole('button', { name: 'Allow buy' }).click();
  await page.locator('.title').getByText('completed').waitFor();
  await page.getByRole('region', { name: 'Value' }).getByText('bought: yes').waitFor();
  // What came of it is not shown of a moment before.
  await page.goto('/runs/market-careful?at=2');
  await page.getByText('Record 2', { exact: true }).waitFor();
  assert.equal(await page.getByRole('region', { name: 'Value' }).count(), 0);
  assert.deepEqual(page.complaints, []);
});
