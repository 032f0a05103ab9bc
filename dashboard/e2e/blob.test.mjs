// A value that is kept beside the log is fetched when somebody wants it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, openWindow } from './kit.mjs';

const HASH = 'a'.repeat(64);
let daemon;
before(async () => {
  daemon = await Daemon.start();
  await daemon.submit('inventory', 'inventory-1', 2);
  await daemon.reached('inventory-1', 'completed');
});
after(() => daemon.stop());

/** A window in which the run has such a value. */
async function withBlob(len, answer) {
  const page = await openWindow(daemon);
  await page.route('**/api/v1/runs/inventory-1', async (route) => {
    const told = await route.fetch();
    await route.fulfill({ response: told, json: { ...(await told.json()), value: { tins: 2, list: { $blob: HASH, len } } } });
  });
  await page.route(`**/blobs/${HASH}`, (route) => route.fulfill(answer));
  await page.goto('/runs/inventory-1');
  return { page, value: page.getByRole('region', { name: 'Value' }) };
}

test('a small one is shown in its place', async () => {
  const { page, value } = await withBlob(300_000, { json: { salt: 1, text: '<b>\u202e' } });
  await value.getByRole('button', { name: 'show 300 kB' }).click();
  await value.getByText('"salt": 1').waitFor();
  assert.equal(await value.locator('pre').innerText(), '{\n  "tins": 2,\n  "list": {\n    "salt": 1,\n    "text": "<b>\\u{202e}"\n  }\n}');
  assert.deepEqual(page.complaints, []);
});

test('one that is gone says so, and can be asked for again', async () => {
  const { page, value } = await withBlob(10, { status: 404, json: { title: 'there is no such value', code: 'TFY0041', next: 'restore it' } });
  await value.getByRole('button', { name: 'show 10 B' }).click();
  await value.getByText('there is no such value').waitFor();
  await value.getByRole('button', { name: 'show 10 B' }).waitFor();
  assert.deepEqual(page.complaints, []);
});

test('a large one is opened, or saved where a link would not be let in', async () => {
  const { page, value } = await withBlob(2_000_000, { json: 'large' });
  const link = value.getByRole('link', { name: /^open 2\.0 MB/ });
  assert.equal(await link.getAttribute('href'), `/api/v1/runs/inventory-1/blobs/${HASH}`);
  assert.equal(await link.getAttribute('target'), '_blank');
  await page.evaluate(() => sessionStorage.setItem('tiffany.token', 'tfy_any'));
  // This daemon knows no tokens.
  await page.route('**/api/**', (route) => {
    const { authorization: _, ...headers } = route.request().headers();
    return route.fallback({ headers });
  });
  await page.reload();
  const [file] = await Promise.all([page.waitForEvent('download'), value.getByRole('button', { name: 'save 2.0 MB' }).click()]);
  assert.equal(file.suggestedFilename(), `${HASH.slice(0, 16)}.json`);
  assert.deepEqual(page.complaints, []);
});
