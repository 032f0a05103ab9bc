// Takes pictures of every page in both themes at three widths: `node e2e/shots.mjs [DIRECTORY]`.
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { closeBrowser, Daemon, openWindow } from './kit.mjs';

const into = resolve(process.argv[2] ?? join(import.meta.dirname, 'shots'));
const PAGES = {
  runs: '/runs', start: '/runs?start=dinner', failed: '/runs/banquet-1', overview: '/runs/dinner-live', past: '/runs/banquet-1?at=20&task=4', graph: '/runs/banquet-1/graph', groups: '/runs/feast-1/graph',
  timeline: '/runs/dinner-live/timeline?task=3', records: '/runs/banquet-1/records?record=28', effects: '/runs/banquet-1/effects?effect=13', output: '/runs/dinner-live/output', approvals: '/approvals', compare: '/compare/banquet-1/banquet-2', system: '/system',
};

mkdirSync(into, { recursive: true });
const daemon = await Daemon.start();
try {
  await daemon.submit('banquet', 'banquet-1', 'bearnaise');
  await daemon.submit('market', 'market-1', 60);
  await daemon.submit('feast', 'feast-1', 600);
  for (let index = 1; index <= 12; index += 1) await daemon.submit('dinner', `dinner-${index}`, 2);
  await daemon.submit('dinner', 'dinner-live', 5000);
  await daemon.reached('banquet-1', 'failed');
  const { records } = await daemon.ask('GET', '/runs/banquet-1/records?from=1&limit=1000');
  const answer = records.find((record) => record.type === 'EffectResult' && record.error && record.retry_at === undefined);
  await daemon.ask('POST', '/runs/banquet-1/forks', { at: answer.seq, id: 'banquet-2', allow: ['*'], value: 'butter' });
  for (const theme of ['light', 'dark']) {
    for (const width of [1600, 900, 380]) {
      const page = await openWindow(daemon, { theme, width, height: width < 500 ? 800 : 1000 });
      for (const [name, path] of Object.entries(PAGES)) {
        await page.goto(path);
        await page.waitForTimeout(name === 'system' ? 7000 : 1200);
        await page.screenshot({ path: join(into, `${name}-${theme}-${width}.png`) });
      }
      for (const complaint of page.complaints) console.error(complaint);
      await page.context().close();
    }
  }
} finally {
  await closeBrowser();
  await daemon.stop();
}
