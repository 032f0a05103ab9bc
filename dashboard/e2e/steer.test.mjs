// Runs are steered from the page: messages, promises, many at once, replay, and steps that nobody but a person can decide on.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, eventually, openWindow, violations } from './kit.mjs';

let daemon;
before(async () => (daemon = await Daemon.start()));
after(() => daemon.stop());

async function choose(page, what) {
  await page.getByRole('button', { name: 'More' }).click();
  await page.getByRole('menuitem', { name: what }).click();
}

const stateOf = (page, state) => page.locator('.title').getByText(state, { exact: true });

test('a message is sent, and another window sees what it does', async () => {
  const [one, other] = [await openWindow(daemon), await openWindow(daemon)];
  await daemon.submit('feast', 'feast-1', 6);
  await other.goto('/runs');
  await other.getByRole('row', { name: /live.*feast-1/ }).waitFor();
  await one.goto('/runs/feast-1');
  const waiting = one.getByRole('treegrid', { name: 'Tasks' }).getByRole('row', { name: /waiting.*receive.*leave/ });
  await eventually(async () => assert.equal(await waiting.count(), 3));
  for (let left = 3; left > 0; left -= 1) {
    await choose(one, 'Send a message…');
    const dialog = one.getByRole('dialog', { name: 'Send a message' });
    if (left === 3) {
      // A message is JSON, and what is none is not sent; neither is an empty field.
      await dialog.getByLabel('Name').fill('leave');
      await dialog.getByLabel('Message').fill(' ');
      await dialog.getByRole('button', { name: 'Send' }).click();
      await dialog.getByText('a value is missing').waitFor();
      await dialog.getByLabel('Message').fill('{ good');
      await dialog.getByRole('button', { name: 'Send' }).click();
      await dialog.getByText('not valid JSON').waitFor();
    }
    await dialog.getByLabel('Name').fill('leave');
    await dialog.getByLabel('Message').fill('{ "hat": 3 }');
    await dialog.getByRole('button', { name: 'Send' }).click();
    await dialog.waitFor({ state: 'detached' });
    await eventually(async () => assert.equal(await waiting.count(), left - 1));
  }
  await stateOf(one, 'completed').waitFor();
  await other.getByRole('row', { name: /completed.*feast-1/ }).waitFor();
  const { records } = await daemon.ask('GET', '/runs/feast-1/records?type=Message&limit=9');
  assert.equal(records.length, 3);
  assert.deepEqual([...one.complaints, ...other.complaints], []);
});

test('a promise is settled with a value, and one with an error', async () => {
  const page = await openWindow(daemon);
  await daemon.submit('delivery', 'delivery-1', 7);
  await page.goto('/runs/delivery-1');
  await choose(page, 'Settle a promise…');
  const dialog = page.getByRole('dialog', { name: 'Settle a promise' });
  await dialog.getByLabel('Value').fill('"trout"');
  await dialog.getByRole('button', { name: 'Settle' }).click();
  await page.getByRole('region', { name: 'Value' }).getByText('"stall 7 brought trout"').waitFor();
  await daemon.submit('delivery', 'delivery-2', 8);
  await page.goto('/runs/delivery-2');
  await choose(page, 'Settle a promise…');
  await dialog.getByLabel('settle it with an error').check();
  await dialog.getByLabel('Error message').fill('the van broke down');
  await dialog.getByRole('button', { name: 'Settle' }).click();
  await page.getByRole('region', { name: 'Why it failed' }).getByText('the van broke down').first().waitFor();
  assert.deepEqual(page.complaints, []);
});

test('several runs are cancelled together, and no other', async () => {
  const [page, other] = [await openWindow(daemon), await openWindow(daemon)];
  for (const id of ['many-1', 'many-2', 'many-3', 'kept-1']) await daemon.submit('market', id, 5);
  await page.goto('/runs?state=live');
  await other.goto('/runs?text=many');
  for (const id of ['many-1', 'many-2', 'many-3']) await page.getByRole('checkbox', { name: `Select ${id}` }).check();
  await page.getByText('3 selected').waitFor();
  await page.getByRole('button', { name: 'Cancel 3' }).click();
  const dialog = page.getByRole('dialog', { name: 'Cancel 3 runs?' });
  await dialog.getByRole('button', { name: 'Keep them' }).click();
  assert.equal((await daemon.ask('GET', '/runs/many-1')).state, 'live');
  await page.getByRole('button', { name: 'Cancel 3' }).click();
  await dialog.getByRole('button', { name: 'Cancel 3 runs' }).click();
  await page.getByText('Cancelling 3 runs').waitFor();
  for (const id of ['many-1', 'many-2', 'many-3']) {
    await daemon.reached(id, 'cancelled');
    await other.getByRole('row', { name: new RegExp(`cancelled.*${id}`) }).waitFor();
    await page.getByRole('row', { name: new RegExp(id) }).waitFor({ state: 'detached' });
  }
  assert.equal((await daemon.ask('GET', '/runs/kept-1')).state, 'live');
  assert.deepEqual([...page.complaints, ...other.complaints], []);
});

test('a run is replayed against its log', async () => {
  const page = await openWindow(daemon);
  await daemon.submit('inventory', 'inventory-1', 3);
  await daemon.reached('inventory-1', 'completed');
  const before = (await daemon.ask('GET', '/runs/inventory-1/tasks')).last;
  await page.goto('/runs/inventory-1');
  await choose(page, 'Replay against its log…');
  const dialog = page.getByRole('dialog', { name: 'Replay' });
  await dialog.getByRole('button', { name: 'Replay' }).click();
  await dialog.getByText('The code matches the log: 3 calls, all identical.').waitFor();
  await dialog.getByText('"verdict": "identical"').waitFor();
  assert.equal((await daemon.ask('GET', '/runs/inventory-1/tasks')).last, before);
  assert.deepEqual(page.complaints, []);
});

/** Starts runs, and kills the daemon while each is in the middle of a step that must not be done twice. */
async function inDoubt(runs) {
  for (const [name, id, input] of runs) await daemon.submit(name, id, input);
  for (const [, id] of runs) await eventually(async () => assert.equal((await daemon.ask('GET', `/runs/${id}/effects`)).effects[0]?.state, 'running'));
  await daemon.end('SIGKILL');
  await daemon.begin();
  await eventually(async () => assert.equal((await daemon.ask('GET', '/doubts')).doubts.length, runs.length));
}

test('a step in doubt is decided: it happened, it failed, or once more', async () => {
  const page = await openWindow(daemon);
  const ids = ['till-1', 'till-2', 'till-3'];
  await inDoubt(ids.map((id) => ['till', id, 12]));
  await page.goto('/system');
  const needs = page.getByRole('region', { name: 'Needs attention' });
  const doubts = needs.getByText('may or may not have been carried out');
  await eventually(async () => assert.equal(await doubts.count(), 3));
  const uuids = {};
  for (const id of ids) uuids[id] = (await daemon.ask('GET', `/runs/${id}`)).uuid;
  const about = (id) => needs.locator('.doubt').filter({ has: page.locator(`a[href="/runs/${uuids[id]}"]`) });
  const dialog = page.getByRole('dialog', { name: 'Decide on charge' });
  const review = dialog.getByRole('button', { name: 'Review…' });
  await about('till-1').getByRole('button', { name: 'Decide…' }).click();
  // One sees what it was about.
  await dialog.getByLabel('Input of the step').getByText('"euros": 12').waitFor();
  await dialog.getByText(`${uuids['till-1']}/2`).waitFor();
  await dialog.getByText(/^Attempt 1, started .*, no result recorded$/).waitFor();
  await dialog.getByText(/kitchen\.rs:\d+/).waitFor();
  // Nothing is decided without a choice, without a result, or with one that is not JSON.
  await review.click();
  await dialog.getByText('Choose what happened.').waitFor();
  await dialog.getByLabel('It was carried out.').check();
  await review.click();
  await dialog.getByText('Enter the result').waitFor();
  await dialog.getByLabel('Result', { exact: true }).fill('12 EUR');
  await review.click();
  await dialog.getByText('not valid JSON').waitFor();
  assert.deepEqual(await violations(page), []);
  assert.equal((await daemon.ask('GET', '/doubts')).doubts.length, 3);
  await dialog.getByLabel('Result', { exact: true }).fill('"12 EUR, says the bank"');
  await review.click();
  await dialog.getByText('counts as carried out, with the result "12 EUR, says the bank"').waitFor();
  assert.equal((await daemon.ask('GET', '/doubts')).doubts.length, 3, 'nothing is decided before it is confirmed');
  await dialog.getByRole('button', { name: 'Confirm' }).click();
  await eventually(async () => assert.equal(await doubts.count(), 2));
  await about('till-2').getByRole('button', { name: 'Decide…' }).click();
  await dialog.getByLabel('It failed.').check();
  await review.click();
  await dialog.getByText('Enter why it failed.').waitFor();
  await dialog.getByLabel('Error message').fill('the bank knows nothing of it');
  await review.click();
  await dialog.getByRole('button', { name: 'Confirm' }).click();
  await eventually(async () => assert.equal(await doubts.count(), 1));
  // The run itself says so too, and there it can be decided as well.
  const own = await openWindow(daemon);
  await own.goto('/runs/till-3');
  const inRun = own.getByRole('region', { name: 'Steps in doubt' });
  await inRun.getByText('The run is waiting for a decision.').waitFor();
  await inRun.getByRole('button', { name: 'Decide…' }).click();
  const again = own.getByRole('dialog', { name: 'Decide on charge' });
  await again.getByLabel('Run it again.').check();
  await again.getByRole('button', { name: 'Review…' }).click();
  await again.getByText('If it was carried out before, it happens twice.').waitFor();
  await again.getByRole('button', { name: 'Confirm' }).click();
  await inRun.waitFor({ state: 'detached' });
  await eventually(async () => assert.equal(await doubts.count(), 0));
  assert.equal((await daemon.reached('till-1', 'completed')).value, '12 EUR, says the bank');
  assert.match((await daemon.reached('till-2', 'failed')).error.message, /the bank knows nothing of it/);
  assert.match((await daemon.reached('till-3', 'completed')).value, /12 EUR at attempt [23]/);
  assert.deepEqual([...page.complaints, ...own.complaints], []);
});

test('the result of a step in doubt has the type of earlier ones, or somebody says so', async () => {
  await inDoubt([['tips', 'tips-1', 2], ['tips', 'tips-2', 2], ['tips', 'tips-3', 2]]);
  const page = await openWindow(daemon, { width: 380, height: 800 });
  const dialog = page.getByRole('dialog', { name: 'Decide on tip' });
  const decide = async (id, fill) => {
    await page.goto(`/runs/${id}`);
    await page.getByRole('button', { name: 'Decide…' }).click();
    await dialog.getByLabel('It was carried out.').check();
    await dialog.getByText('An earlier call of this step returned {"cents":50}.').waitFor();
    await fill();
    await dialog.getByRole('button', { name: 'Review…' }).click();
    await dialog.getByRole('button', { name: 'Confirm' }).click();
    await dialog.waitFor({ state: 'detached' });
    return (await daemon.reached(id, 'completed')).value[1];
  };
  const result = dialog.getByLabel('Result', { exact: true });
  const refused = async (text, why) => {
    await result.fill(text);
    await dialog.getByRole('button', { name: 'Review…' }).click();
    await dialog.getByText(why).waitFor();
  };
  const right = await decide('tips-1', async () => {
    await refused('20', 'the result was an object before, but is now a whole number');
    await refused('{ "cents": "20" }', 'the result.cents was a whole number before, but is now text');
    await result.fill('{ "cents": 20 }');
  });
  assert.deepEqual(right, { cents: 20 });
  const other = await decide('tips-2', async () => {
    await refused('20', 'the result was an object before');
    await dialog.getByLabel('use this result although its type differs').check();
  });
  assert.equal(other, 20);
  assert.equal(await decide('tips-3', () => dialog.getByLabel('no value (null)').check()), null);
  assert.deepEqual(page.complaints, []);
});

test('who lets nobody else go on is named while it does, and afterwards', async () => {
  const page = await openWindow(daemon);
  await page.goto('/system');
  await page.getByRole('region', { name: 'Needs attention' }).waitFor();
  const submitted = daemon.submit('stare', 'stare-1', 5000);
  const kept = page.getByRole('region', { name: 'Blocking task' });
  await kept.getByText(/has kept its turn for/).waitFor();
  assert.match(await kept.innerText(), /task 1 of run [\da-f]{8}\s+has kept its turn for [\d.]+ s,\s+so no other task can run: see the code after examples\/kitchen\.rs:\d+/);
  await submitted;
  await kept.waitFor({ state: 'detached' });
  const needs = page.getByRole('region', { name: 'Needs attention' });
  await needs.getByText(/kept its turn for/).waitFor();
  await needs.getByRole('link', { name: 'task 1' }).first().click();
  await page.getByRole('heading', { name: 'stare-1' }).waitFor();
  assert.deepEqual(page.complaints, []);
});

test('stuck tasks come first on the page of the system, the longest first', async () => {
  const page = await openWindow(daemon);
  await daemon.submit('oven', 'oven-1', 300);
  await eventually(async () => assert.equal((await daemon.ask('GET', '/runs/oven-1/effects')).effects[0]?.state, 'retrying'));
  await daemon.submit('delivery', 'delivery-3', 9);
  await page.goto('/system');
  const needs = page.getByRole('region', { name: 'Needs attention' });
  const rows = needs.getByRole('table', { name: 'Stuck tasks' }).getByRole('row');
  await needs.waitFor();
  assert.equal(await rows.count(), 0);
  await needs.getByLabel('Tasks that wait').selectOption('at all');
  await page.waitForURL('**/system?waits=0');
  await eventually(async () => assert.equal(await rows.count(), 3));
  const [, first, second] = await rows.allInnerTexts();
  assert.match(first, /heat.*attempt 1 failed[\s\S]*task 1[\s\S]*oven-1/);
  assert.match(second, /promise[\s\S]*delivery-3/);
  await needs.getByRole('link', { name: 'oven-1' }).click();
  await page.getByRole('heading', { name: 'oven-1' }).waitFor();
  await page.goBack();
  await needs.getByRole('row', { name: /oven-1/ }).getByRole('link', { name: 'task 1' }).click();
  await page.getByRole('region', { name: /Task 1|task 1/ }).first().waitFor();
  assert.deepEqual(page.complaints, []);
});
