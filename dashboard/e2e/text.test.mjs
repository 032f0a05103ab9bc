// Text of runs is text: HTML is not obeyed, and control characters are seen.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, eventually, openWindow } from './kit.mjs';

const EVIL = '<img src=x onerror="alert(1)"><script>alert(2)</script>\u001b[31m\u202e{{7*7}}';
const SEEN = '<img src=x onerror="alert(1)"><script>alert(2)</script>\\u{1b}[31m\\u{202e}{{7*7}}';

let daemon;
before(async () => {
  daemon = await Daemon.start();
  await daemon.submit('label', '<u>label</u>', EVIL);
  await eventually(async () => assert.equal((await daemon.ask('GET', '/approvals')).approvals.length, 1));
});
after(() => daemon.stop());

async function isText(page) {
  assert.equal(await page.locator('main img, main script, main u').count(), 0);
  const raw = await page.evaluate(() => document.querySelector('main').innerText + document.title);
  assert.doesNotMatch(raw, /[\u0000-\u0008\u001b\u202e]/);
  assert.deepEqual(page.complaints, []);
}

test('in every page of a run, in lists and in titles', async () => {
  const page = await openWindow(daemon, { width: 1600 });
  for (const path of ['/runs', '/approvals', '/system', ...['', '/graph', '/timeline', '/records', '/effects', '/output'].map((tab) => `/runs/${encodeURIComponent('<u>label</u>')}${tab}`)]) {
    await page.goto(path);
    await page.locator('h1').waitFor();
    await page.getByText('<', { exact: false }).first().waitFor({ timeout: path === '/system' ? 1 : 15_000 }).catch((error) => { if (path !== '/system') throw error; });
    await isText(page);
  }
  await page.goto(`/runs/${encodeURIComponent('<u>label</u>')}/output`);
  await page.getByText(SEEN, { exact: false }).first().waitFor();
});

test('in the error that it fails with', async () => {
  const page = await openWindow(daemon);
  await page.goto('/approvals');
  await page.getByText(`Print ${SEEN}?`).waitFor();
  await page.getByRole('button', { name: 'yes' }).click();
  await daemon.reached('<u>label</u>', 'failed');
  await page.goto('/runs?state=failed');
  await page.getByRole('link', { name: '<u>label</u>' }).click();
  await page.getByRole('region', { name: 'Why it failed' }).getByText(`no paper for ${SEEN}`).waitFor();
  await isText(page);
});
