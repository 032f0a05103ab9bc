// Starts a real daemon with a real program on a free port, opens Debian's chromium on it, and stops both.
// Nothing here knows what is tested.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after } from 'node:test';
import { chromium } from 'playwright-core';

export const PROGRAM = process.env.TIFFANY_PROGRAM ?? resolve(import.meta.dirname, '../../target/debug/examples/kitchen');
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const TIMEOUT_MS = 15_000;

/** A daemon, its directory, and the ways to talk to it that need no browser. */
export class Daemon {
  /** `config` is what the file of `--config` says. */
  static async start({ config } = {}) {
    const daemon = new Daemon();
    daemon.dir = mkdtempSync(join(tmpdir(), 'tiffany-e2e-'));
    daemon.args = [];
    if (config) {
      writeFileSync(join(daemon.dir, 'serve.toml'), config);
      daemon.args = ['--config', join(daemon.dir, 'serve.toml')];
    }
    await daemon.begin('127.0.0.1:0');
    return daemon;
  }

  /** Starts the process; after the first time on the same port, so that pages find it again. */
  async begin(listen = this.listen) {
    const child = spawn(PROGRAM, ['--dir', this.dir, 'serve', '--listen', listen, ...this.args], { stdio: ['ignore', 'pipe', 'pipe'] });
    this.child = child;
    let told = '';
    this.url = await new Promise((found, failed) => {
      const timer = setTimeout(() => failed(new Error(`the daemon did not say where it is: ${told}`)), TIMEOUT_MS);
      const hear = (chunk) => {
        told += chunk;
        const url = /https?:\/\/[\d.]+:\d+/.exec(told);
        if (url) {
          clearTimeout(timer);
          found(url[0]);
        }
      };
      child.stdout.on('data', hear);
      child.stderr.on('data', hear);
      child.on('exit', (code) => failed(new Error(`the daemon ended with ${code}: ${told}`)));
      child.on('error', failed);
    });
    this.listen = new URL(this.url).host;
  }

  /** Ends the process: in good order, or by SIGKILL. */
  async end(signal = 'SIGTERM') {
    const { child } = this;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((done) => child.once('exit', done));
    child.kill(signal);
    await ended;
  }

  async stop() {
    await this.end();
    rmSync(this.dir, { recursive: true, force: true });
  }

  async ask(method, path, body, headers = {}) {
    const answer = await fetch(`${this.url}/api/v1${path}`, { method, headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers }, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  submit(name, id, input) {
    return this.ask('POST', '/runs', { function: name, id, input });
  }

  /** A new token, made as an operator of the daemon makes it. */
  token(name, role) {
    const told = execFileSync(PROGRAM, ['--dir', this.dir, 'token', 'add', name, '--role', role], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    return /tfy_\S+/.exec(told)[0];
  }

  /** The run when it is in that state. */
  async reached(run, state) {
    return eventually(async () => {
      const now = await this.ask('GET', `/runs/${encodeURIComponent(run)}`);
      assert.equal(now.state, state);
      return now;
    });
  }
}

/** Tries until it holds. */
export async function eventually(what, patience = TIMEOUT_MS) {
  const until = Date.now() + patience;
  for (;;) {
    try {
      return await what();
    } catch (error) {
      if (Date.now() > until) throw error;
      await new Promise((wait) => setTimeout(wait, 50));
    }
  }
}

let browser;
export const closeBrowser = () => browser?.close();
// Programs that are no tests close it themselves.
if (process.env.NODE_TEST_CONTEXT) after(closeBrowser);

/** A window of its own: nothing is shared with others. What the page complains of is in `complaints`. */
export async function openWindow(daemon, { theme = 'light', width = 1280, height = 900 } = {}) {
  browser ??= await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, baseURL: daemon.url, reducedMotion: 'reduce' });
  context.setDefaultTimeout(TIMEOUT_MS);
  const page = await context.newPage();
  page.complaints = [];
  page.on('pageerror', (error) => page.complaints.push(String(error.stack ?? error)));
  page.on('console', (message) => {
    // A link that is down is what some tests are about, and the browser always tells of it.
    if (message.type() === 'error' && !/WebSocket|Failed to load resource|ERR_CONNECTION/.test(message.text())) page.complaints.push(message.text());
  });
  page.on('dialog', (dialog) => {
    page.complaints.push(`a dialog came up: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(daemon.url) && !request.url().startsWith('data:')) page.complaints.push(`a request to somebody else: ${request.url()}`);
  });
  return page;
}

/** What the tab holds after its garbage is collected, in MB: the heap with what belongs to it, its process, and how many nodes there are. */
export async function memoryOf(page) {
  const tab = await page.context().newCDPSession(page);
  await tab.send('HeapProfiler.enable');
  // What is freed by the first is often what held something else.
  for (let time = 0; time < 3; time += 1) await tab.send('HeapProfiler.collectGarbage');
  const { usedSize, embedderHeapUsedSize = 0, backingStorageSize = 0 } = await tab.send('Runtime.getHeapUsage');
  const { nodes } = await tab.send('Memory.getDOMCounters');
  await tab.detach();
  const whole = await browser.newBrowserCDPSession();
  const { processInfo } = await whole.send('SystemInfo.getProcessInfo');
  await whole.detach();
  const sizes = processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, 'utf8'))?.[1] ?? 0));
  return { heap: (usedSize + embedderHeapUsedSize + backingStorageSize) / 1e6, process: Math.max(...sizes) / 1000, nodes };
}

/** What axe-core finds wrong with the page. */
export async function violations(page) {
  // Scripts of others are forbidden by the page's policy, so this one comes in by the debugger.
  await page.evaluate(readFileSync(AXE, 'utf8'));
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
  return found.violations.map((one) => `${one.id}: ${one.help}\n${one.nodes.slice(0, 4).map((node) => `    ${node.target.join(' ')}  ${node.failureSummary?.split('\n').slice(1, 3).join(' ')}`).join('\n')}`);
}
