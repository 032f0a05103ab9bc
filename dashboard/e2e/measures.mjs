// What is measured of the page, in a browser and in front of a daemon: how soon a long run is seen, how smoothly it scrolls, how soon an event
// is on the screen, what an hour of events leaves in memory, and how large the code is. Each gives samples; what they must reach is said with them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { Daemon, eventually, memoryOf, openWindow, PROGRAM } from './kit.mjs';
import { percentile } from './report.mjs';

/** Sizes for figures that mean something, and just enough to see that everything still works. */
export const FULL = { tasks: 10_000, opens: 5, wheels: 150, jumps: 25, lives: 21, events: 360_000, slices: 8 };
export const QUICK = { tasks: 1_000, opens: 1, wheels: 30, jumps: 6, lives: 5, events: 16_000, slices: 4 };

const BIG_RUN = join(dirname(PROGRAM), 'big_run');

/** A daemon with the long run in it. */
export async function withBigRun(size) {
  const daemon = await Daemon.start();
  await daemon.end();
  execFileSync(BIG_RUN, [daemon.dir, String(size.tasks)], { stdio: 'ignore' });
  await daemon.begin();
  return daemon;
}

/** From the click on its row to the frame that has its name and a screen full of its tasks. */
async function openOnce(page) {
  await page.goto('/runs');
  const link = page.getByRole('row', { name: /big/ }).getByRole('link');
  await link.waitFor();
  const opened = page.evaluate(() => new Promise((done) => {
    const begin = (click) => {
      const look = () => {
        const isThere = document.querySelector('h1')?.textContent === 'big' && document.querySelectorAll('[role=treegrid] [data-index]').length >= 10;
        if (!isThere) return void requestAnimationFrame(look);
        // What comes after this frame comes after it was painted.
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => done(performance.now() - click.timeStamp);
        port2.postMessage(0);
      };
      requestAnimationFrame(look);
    };
    addEventListener('click', begin, { capture: true, once: true });
  }));
  await link.click();
  const took = await opened;
  // All of them come after that.
  await page.getByText((page.tasks + 1).toLocaleString('en-GB'), { exact: true }).waitFor();
  return took;
}

export async function open(daemon, size) {
  const samples = [];
  for (let round = 0; round < size.opens; round += 1) {
    // A daemon that was just started knows nothing of the run yet.
    await daemon.end();
    await daemon.begin();
    const page = await openWindow(daemon);
    page.tasks = size.tasks;
    await watchTasks(page);
    const value = await openOnce(page);
    const longest = Math.max(0, ...(await longTasks(page)));
    samples.push({ value, beside: { again: await openOnce(page), longest_task: longest } });
    await page.context().close();
  }
  return { name: 'ui_open', what: `a run with ${size.tasks} tasks and twenty times as many records, from the click to the first useful paint`, unit: 'ms', targets: [{ most: 1000 }], samples };
}

/** Notes every task of the main thread that is long, which is 50 ms and more, and how long after each other frames come. */
async function watchTasks(page) {
  await page.addInitScript(() => {
    globalThis.longTasks = [];
    globalThis.frames = [];
    let before = 0;
    const frame = (now) => {
      if (before > 0) globalThis.frames.push(now - before);
      before = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    new PerformanceObserver((list) => globalThis.longTasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: 'longtask' });
  });
}

const longTasks = (page) => page.evaluate(() => globalThis.longTasks);

const nextFrame = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => done())));

/** Scrolls with the wheel, then jumps to places all over it, as one does who pulls the bar. */
async function scrollThrough(page, box, size) {
  await box.hover();
  for (let wheel = 0; wheel < size.wheels; wheel += 1) {
    await page.mouse.wheel(0, wheel % 5 === 4 ? -900 : 700);
    await nextFrame(page);
  }
  for (let jump = 0; jump < size.jumps; jump += 1) {
    await box.evaluate((element, share) => (element.scrollTop = share * element.scrollHeight), ((jump * 7) % size.jumps) / size.jumps);
    await nextFrame(page);
    await nextFrame(page);
  }
}

export async function scroll(daemon, size) {
  const page = await openWindow(daemon);
  await watchTasks(page);
  await page.goto('/runs/big/records');
  const records = page.getByRole('grid', { name: /Records/ });
  await records.getByRole('row').nth(20).waitFor();
  // What it took to open the page is not scrolling.
  const forget = () => page.evaluate(() => (globalThis.longTasks.length = globalThis.frames.length = 0));
  await forget();
  await scrollThrough(page, records, size);
  const ofRecords = await longTasks(page);
  const frames = await page.evaluate(() => globalThis.frames);
  await page.goto('/runs/big/timeline');
  const lanes = page.getByRole('region', { name: /^Lanes of/ });
  await lanes.waitFor();
  await eventually(async () => assert.match(await lanes.getAttribute('aria-label'), new RegExp(`of ${(size.tasks + 1).toLocaleString('en-GB')} tasks`)));
  await forget();
  await scrollThrough(page, lanes, size);
  for (let nearer = 0; nearer < 10; nearer += 1) {
    await lanes.press('+');
    await lanes.press('Shift+ArrowRight');
    await nextFrame(page);
  }
  const ofTimeline = await longTasks(page);
  frames.push(...(await page.evaluate(() => globalThis.frames)));
  await page.context().close();
  const all = [...ofRecords, ...ofTimeline];
  const sample = { value: percentile(all, 95), beside: { longest: Math.max(0, ...all), in_records: ofRecords.length, in_timeline: ofTimeline.length, frame_p95: percentile(frames, 95) } };
  return { name: 'ui_scroll', what: 'scrolling through its records and its timeline, p95 of the long tasks of the main thread; 0: there was none', unit: 'ms', targets: [{ most: 100 }], samples: [sample] };
}

/** From the moment that a run ended, by the daemon's clock, to the frame that shows it. */
export async function live(daemon, size) {
  const page = await openWindow(daemon);
  await page.goto('/runs');
  await page.getByText('Live', { exact: true }).waitFor();
  const samples = [];
  for (let round = 0; round < size.lives; round += 1) {
    const id = `live-${round}`;
    await daemon.submit('market', id, 5);
    await page.getByRole('row', { name: new RegExp(`${id}\\b`) }).waitFor();
    const shown = page.evaluate((wanted) => new Promise((done) => {
      const look = () => {
        const row = [...document.querySelectorAll('[role=row]')].find((one) => one.textContent.includes(wanted));
        if (row?.textContent.includes('cancelled')) done(performance.timeOrigin + performance.now());
        else requestAnimationFrame(look);
      };
      look();
    }), id);
    await daemon.ask('POST', `/runs/${id}/cancel`, {});
    const ended = Date.parse((await daemon.reached(id, 'cancelled')).ended);
    samples.push({ value: (await shown) - ended, beside: {} });
  }
  await page.context().close();
  return { name: 'ui_live', what: 'from an event to the frame that shows it', unit: 'ms', targets: [{ most: 100 }], samples };
}

/** Counts the messages that the page is told, in the page. */
function countMessages() {
  globalThis.told = 0;
  globalThis.WebSocket = class extends globalThis.WebSocket {
    constructor(...how) {
      super(...how);
      this.addEventListener('message', () => (globalThis.told += 1));
    }
  };
}

/** Goes from page to page without a reload while runs tell what they do. */
async function lookAround(page, run) {
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Runs' }).click();
  await page.getByRole('row', { name: new RegExp(`${run}\\b`) }).first().getByRole('link').click();
  await page.getByRole('heading', { name: run, exact: true }).waitFor();
  for (const tab of ['Graph', 'Timeline', 'Records', 'Steps', 'Output', 'Overview']) {
    await page.getByRole('tab', { name: tab }).click();
    await nextFrame(page);
  }
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'System' }).click();
  await page.getByRole('heading', { name: 'System', exact: true }).waitFor();
}

/** An hour at a hundred events a second, as fast as they come. The second half must leave no more than the first. */
export async function memory(daemon, size) {
  const page = await openWindow(daemon);
  await page.addInitScript(countMessages);
  await page.goto('/runs');
  await page.getByText('Live', { exact: true }).waitFor();
  const told = () => page.evaluate(() => globalThis.told);
  const heaps = [];
  let run = 0;
  for (let slice = 1; slice <= size.slices; slice += 1) {
    const wanted = (size.events / size.slices) * slice;
    while ((await told()) < wanted) {
      run += 1;
      await daemon.submit('rush', `rush-${run}`, 400);
      if (run % 10 === 1) await lookAround(page, `rush-${run}`);
      else if (run % 10 === 2) await page.goBack();
      await daemon.reached(`rush-${run}`, 'completed');
    }
    if (slice === size.slices / 2 || slice === size.slices) heaps.push(await memoryOf(page));
  }
  const events = await told();
  await page.context().close();
  const [half, end] = heaps;
  const sample = { value: end.heap, beside: { half: half.heap, grown: end.heap - half.heap, process: end.process, nodes: end.nodes, events } };
  const targets = [{ most: 300 }, { column: 'process', most: 300 }, { column: 'grown', most: Math.max(3, half.heap / 10) }];
  return { name: 'ui_memory', what: "the tab's heap after an hour's worth of events, time compressed", unit: 'MB', targets, samples: [sample] };
}

export async function size() {
  const sizes = ['app.js', 'app.css', 'index.html'].map((name) => gzipSync(readFileSync(resolve(import.meta.dirname, '../../crates/daemon/assets', name)), { level: 9 }).length);
  return { name: 'ui_size', what: 'the code of the page, gzipped', unit: 'kB', targets: [{ most: 250 }], samples: [{ value: sizes.reduce((sum, one) => sum + one, 0) / 1000, beside: {} }] };
}

/** All of them, in order. `wanted` names some; none stands for all. */
export async function* all(how, wanted = []) {
  const is = (name) => wanted.length === 0 || wanted.includes(name);
  if (is('ui_size')) yield await size();
  if (is('ui_open') || is('ui_scroll')) {
    const daemon = await withBigRun(how);
    try {
      if (is('ui_open')) yield await open(daemon, how);
      if (is('ui_scroll')) yield await scroll(daemon, how);
    } finally {
      await daemon.stop();
    }
  }
  if (is('ui_live') || is('ui_memory')) {
    const daemon = await Daemon.start();
    try {
      if (is('ui_live')) yield await live(daemon, how);
      if (is('ui_memory')) yield await memory(daemon, how);
    } finally {
      await daemon.stop();
    }
  }
}

export const NAMES = ['ui_size', 'ui_open', 'ui_scroll', 'ui_live', 'ui_memory'];
