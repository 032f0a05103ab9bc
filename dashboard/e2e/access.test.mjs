// Everybody can use it: axe-core finds nothing in either theme, and everything is done by keys.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, eventually, openWindow, violations } from './kit.mjs';

const PAGES = ['/runs', '/runs?state=failed', '/runs?start=dinner', '/runs/banquet-1', '/runs/banquet-1?at=9&task=4', '/runs/banquet-1/graph', '/runs/dinner-1/timeline?task=2', '/runs/banquet-1/records?record=3', '/runs/banquet-1/effects?effect=13', '/runs/dinner-1/output', '/runs/market-1', '/runs/nothing-like-that', '/approvals', '/system?waits=0'];

let daemon;
before(async () => {
  daemon = await Daemon.start();
  await daemon.submit('banquet', 'banquet-1', 'bearnaise');
  await daemon.submit('market', 'market-1', 60);
  await daemon.submit('dinner', 'dinner-1', 2);
  await daemon.submit('oven', 'oven-1', 300);
  await daemon.reached('banquet-1', 'failed');
  await daemon.reached('dinner-1', 'completed');
});
after(() => daemon.stop());

for (const theme of ['light', 'dark']) {
  for (const width of [1280, 380]) {
    test(`axe-core finds nothing: ${theme}, ${width} pixels`, async () => {
      const page = await openWindow(daemon, { theme, width });
      const wrong = [];
      for (const path of PAGES) {
        await page.goto(path);
        await page.locator('h1').first().waitFor({ state: 'attached' });
        await page.waitForTimeout(path.startsWith('/system') ? 1500 : 600);
        wrong.push(...(await violations(page)).map((one) => `${path}  ${one}`));
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, `${path} is wider than the window`);
      }
      assert.deepEqual(wrong, []);
      assert.deepEqual(page.complaints, []);
    });
  }
}

test('a run is found, opened and read by keys alone', async () => {
  const page = await openWindow(daemon);
  await page.goto('/runs');
  await page.getByRole('row', { name: /banquet-1/ }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('banquet');
  await page.waitForURL('**/runs?text=banquet');
  await page.getByRole('row', { name: /dinner-1/ }).waitFor({ state: 'detached' });
  await page.keyboard.press('Escape');
  await page.getByRole('grid', { name: 'Runs' }).focus();
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/runs/*-*');
  await page.getByRole('region', { name: 'Why it failed' }).waitFor();
  await page.keyboard.press('4');
  await page.waitForURL('**/records');
  await page.getByRole('grid', { name: /Records/ }).getByRole('row').nth(3).waitFor();
  await page.getByRole('grid', { name: /Records/ }).focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByRole('region', { name: /^Record \d+$/ }).waitFor();
  await page.keyboard.press('1');
  await page.getByRole('treegrid', { name: 'Tasks' }).focus();
  await page.keyboard.press('ArrowLeft');
  await eventually(async () => assert.equal(await page.getByRole('treegrid').getByRole('row').count(), 2));
  await page.keyboard.press('ArrowRight');
  await eventually(async () => assert.equal(await page.getByRole('treegrid').getByRole('row').count(), 5));
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await page.waitForURL('**/system');
  assert.deepEqual(page.complaints, []);
});

/** Presses Tab until what has the focus is called so. */
async function tabTo(page, name, most = 60) {
  const seen = [];
  for (let press = 0; press < most; press += 1) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => (document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent ?? '').replace(/\s+/g, ' ').trim());
    if (name.test(at)) return;
    seen.push(at.slice(0, 40));
  }
  assert.fail(`Tab leads nowhere that is called ${name}: ${seen.join(' | ')}`);
}

test('why a run failed is found from the front page by keys alone', async () => {
  const page = await openWindow(daemon);
  await page.goto('/');
  await page.getByRole('button', { name: '1 failed' }).waitFor();
  await tabTo(page, /^1\s?failed$/);
  await page.keyboard.press('Enter');
  await page.waitForURL(/\?state=failed$/);
  await eventually(async () => assert.equal(await page.getByRole('row').count(), 2));
  await tabTo(page, /^Runs$/);
  await page.keyboard.press('Enter');
  const why = page.getByRole('region', { name: 'Why it failed' });
  await why.getByText('the bearnaise is burnt').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), 'H1', 'the heading of the new page has the focus');
  await why.getByRole('link', { name: /^Record \d+$/ }).waitFor();
  await tabTo(page, /^Step and its attempts$/);
  await page.keyboard.press('Enter');
  await page.getByRole('region', { name: /^Step \d+$/ }).getByRole('listitem').nth(2).waitFor();
  await page.goBack();
  await tabTo(page, /^Record \d+$/);
  await page.keyboard.press('Enter');
  await page.getByRole('region', { name: /^Record \d+$/ }).getByText('TaskAbort').first().waitFor();
  assert.deepEqual(page.complaints, []);
});
