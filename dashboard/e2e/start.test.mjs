// A run is started from a form that is made of the function's schema, and what is wrong in it is said where it is.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, openWindow } from './kit.mjs';

let daemon;
before(async () => (daemon = await Daemon.start()));
after(() => daemon.stop());

async function form(page) {
  await page.goto('/runs');
  await page.getByRole('button', { name: 'Start a run' }).click();
  const dialog = page.getByRole('dialog', { name: 'Start a run' });
  await dialog.getByLabel('Function').selectOption('reserve');
  await dialog.getByLabel('name', { exact: true }).waitFor();
  return dialog;
}

test('the form has a field for everything the function takes, and the run gets what was filled in', async () => {
  const page = await openWindow(daemon);
  const dialog = await form(page);
  await dialog.getByText('Keeps a table free.').waitFor();
  await dialog.getByText('Who comes.').waitFor();
  await dialog.getByLabel('name', { exact: true }).fill('Ada <b>');
  await dialog.getByLabel('guests').fill('4');
  assert.deepEqual(await dialog.getByLabel('meal').locator('option').allInnerTexts(), ['lunch', 'dinner']);
  await dialog.getByLabel('meal').selectOption('dinner');
  await dialog.getByLabel('outside').check();
  await dialog.getByLabel('ID (optional)', { exact: true }).fill('table-1');
  await dialog.getByRole('button', { name: 'Start', exact: true }).click();
  await page.getByRole('heading', { name: 'table-1' }).waitFor();
  await page.getByRole('region', { name: 'Value' }).getByText('"Ada <b> for 4 at dinner, outside"').waitFor();
  const [first] = (await daemon.ask('GET', '/runs/table-1/records?from=1&limit=1')).records;
  assert.deepEqual(first.input, { name: 'Ada <b>', guests: 4, meal: 'dinner', outside: true });
  assert.deepEqual(page.complaints, []);
});

test('a function without a schema says what it takes', async () => {
  const page = await openWindow(daemon);
  const dialog = await form(page);
  await dialog.getByLabel('Function').selectOption('dinner');
  await dialog.getByText('Takes u64, as JSON.').waitFor();
  assert.deepEqual(page.complaints, []);
});

test('bad input is said at its field, and nothing is started', async () => {
  const page = await openWindow(daemon);
  const dialog = await form(page);
  await dialog.getByLabel('name', { exact: true }).fill('Bob');
  const start = dialog.getByRole('button', { name: 'Start', exact: true });
  for (const [guests, problem] of [['', 'a value is required'], ['many', 'not a number'], ['2.5', 'a whole number is required'], ['13', 'at most 12'], ['0', 'at least 1']]) {
    await dialog.getByLabel('guests').fill(guests);
    await start.click();
    await dialog.getByText(problem).waitFor();
    assert.equal(await dialog.getByLabel('guests').getAttribute('aria-invalid'), 'true');
  }
  // What the form cannot know, the function refuses.
  await dialog.getByLabel('guests').fill('2');
  await dialog.getByRole('button', { name: 'Write JSON instead' }).click();
  assert.deepEqual(JSON.parse(await dialog.getByLabel('Input').inputValue()), { name: 'Bob', guests: 2, meal: 'lunch', outside: false });
  await dialog.getByLabel('Input').fill('{ "name": "Bob" ');
  await start.click();
  await dialog.getByText('not valid JSON').waitFor();
  assert.equal((await daemon.ask('GET', '/runs?text=Bob')).total, 0);
  await dialog.getByLabel('Input').fill('{ "name": 7 }');
  await start.click();
  await dialog.getByRole('alert').getByText('TFY0035').waitFor();
  await dialog.getByRole('alert').getByText(/`name` is a string, not 7/).waitFor();
  assert.equal((await daemon.ask('GET', '/runs')).total, 1);
  assert.deepEqual(page.complaints, []);
});
