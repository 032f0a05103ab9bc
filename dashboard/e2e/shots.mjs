// Pictures of every page: `node e2e/shots.mjs` writes those of the book, `node e2e/shots.mjs DIRECTORY` all pages in both themes at three widths.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { closeBrowser, Daemon, eventually, openWindow } from './kit.mjs';

export const BOOK = resolve(import.meta.dirname, '../../docs/src/images/dashboard');

/** The step that failed. The numbers of records depend on which steps begin first. */
async function failedStep(daemon) {
  const { effects } = await daemon.ask('GET', '/runs/banquet-1/effects');
  return `/runs/banquet-1/effects?effect=${effects.find((effect) => effect.state === 'failed').record}`;
}

/** Where each page is, and what is to be seen before its picture is taken. */
export const PAGES = {
  runs: ['/runs', (page) => page.getByRole('row', { name: /dinner-6/ })],
  start: ['/runs?start=reserve', (page) => page.getByLabel('guests')],
  failed: ['/runs/banquet-1', (page) => page.getByText('Step and its attempts')],
  overview: ['/runs/dinner-live', (page) => page.getByText(/\/5,000/).first()],
  travel: ['/runs/banquet-1?at=20&task=4', (page) => page.getByText('Record 20', { exact: true })],
  graph: ['/runs/banquet-1/graph', (page) => page.locator('path.failure').first()],
  groups: ['/runs/feast-1/graph', (page) => page.getByText(/drawn as groups/)],
  timeline: ['/runs/dinner-live/timeline?task=3', (page) => page.getByText(/task 3/).first()],
  records: ['/runs/banquet-1/records?record=28', (page) => page.getByRole('region', { name: 'Record 28' })],
  effects: [failedStep, (page) => page.getByRole('region', { name: /^Step \d+$/ })],
  output: ['/runs/dinner-live/output', (page) => page.getByText(/turn \d+ of/).first()],
  approvals: ['/approvals', (page) => page.getByRole('article').first()],
  compare: ['/compare/banquet-1/banquet-2', (page) => page.getByRole('region', { name: 'First difference' })],
  system: ['/system?waits=0', (page) => page.getByRole('table', { name: 'Stuck tasks' })],
};

/** Pages that the book shows in the dark, too. */
const DARK = ['failed', 'system'];
export const NAMES = [...Object.keys(PAGES), ...DARK.map((name) => `${name}-dark`)].sort();

/** A daemon with something on every page. */
export async function busyDaemon() {
  const daemon = await Daemon.start();
  await daemon.submit('banquet', 'banquet-1', 'bearnaise');
  await daemon.submit('market', 'market-1', 60);
  await daemon.submit('feast', 'feast-1', 600);
  await daemon.submit('oven', 'oven-1', 300);
  await daemon.submit('delivery', 'delivery-1', 7);
  await daemon.submit('till', 'till-1', 12);
  for (let index = 1; index <= 6; index += 1) await daemon.submit('dinner', `dinner-${index}`, 2);
  await eventually(async () => assert.equal((await daemon.ask('GET', '/runs/till-1/effects')).effects[0]?.state, 'running'));
  await daemon.reached('banquet-1', 'failed');
  await daemon.reached('dinner-6', 'completed');
  // A step that was cut off is in doubt.
  await daemon.end('SIGKILL');
  await daemon.begin();
  await daemon.submit('dinner', 'dinner-live', 5000);
  const { records } = await daemon.ask('GET', '/runs/banquet-1/records?from=1&limit=1000');
  const answer = records.find((record) => record.type === 'EffectResult' && record.error && record.retry_at === undefined);
  await daemon.ask('POST', '/runs/banquet-1/forks', { at: answer.seq, id: 'banquet-2', allow: ['*'], value: 'butter' });
  await daemon.reached('banquet-2', 'completed');
  return daemon;
}

/** Takes the pictures of some pages. */
export async function take(daemon, names, fileOf, { theme, width, height }) {
  const page = await openWindow(daemon, { theme, width, height });
  for (const name of names) {
    const [path, isThere] = PAGES[name];
    await page.goto(typeof path === 'function' ? await path(daemon) : path);
    await isThere(page).waitFor({ state: 'attached' });
    // Figures over time need some time; everything else is there in a moment.
    await page.waitForTimeout(name === 'system' ? 6500 : 500);
    await page.screenshot({ path: fileOf(name) });
  }
  await page.context().close();
  return page.complaints;
}

/** The pictures of the book. */
export async function takeForBook(daemon, into) {
  mkdirSync(into, { recursive: true });
  const size = { width: 1280, height: 800 };
  const light = await take(daemon, Object.keys(PAGES), (name) => join(into, `${name}.png`), { theme: 'light', ...size });
  const dark = await take(daemon, DARK, (name) => join(into, `${name}-dark.png`), { theme: 'dark', ...size });
  return [...light, ...dark];
}

async function takeAll(daemon, into) {
  mkdirSync(into, { recursive: true });
  const complaints = [];
  for (const theme of ['light', 'dark']) {
    for (const width of [1600, 900, 380]) {
      complaints.push(...(await take(daemon, Object.keys(PAGES), (name) => join(into, `${name}-${theme}-${width}.png`), { theme, width, height: width < 500 ? 800 : 1000 })));
    }
  }
  return complaints;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [into] = process.argv.slice(2);
  const daemon = await busyDaemon();
  try {
    if (!into) for (const file of readdirSync(BOOK, { withFileTypes: true })) rmSync(join(BOOK, file.name));
    const complaints = into ? await takeAll(daemon, resolve(into)) : await takeForBook(daemon, BOOK);
    complaints.forEach((complaint) => console.error(complaint));
  } finally {
    await closeBrowser();
    await daemon.stop();
  }
}
